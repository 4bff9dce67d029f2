"""What a module is before it is differentiated."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from legato.infer.infer import infer
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Function, GlobalVar
from legato.ir.module import Module
from legato.ir.types import FuncType
from legato.ir.visit import rename_bound, rename_globals
from legato.transform._closures import Names
from legato.transform._gradient.marked import GRADIENT
from legato.transform.defuse import Defuse
from legato.transform.expand_calls import ExpandCalls
from legato.transform.to_a_normal import ToANormal

__all__ = ["apart", "prepared"]


def prepared(mod: Module) -> Module:
    """`mod`, typed, in A-normal form. Calls of operators that have no gradient and are made of others are these: the
    numbers of `dyn.X` are dims, and X has a gradient. Groups that fusion made are their operators again."""
    return ToANormal()(ExpandCalls(ungraded=True)(ExpandCalls(known=True)(apart(Defuse()(infer(mod))))))


def apart(mod: Module) -> Module:
    """`mod` with an @main that may become another function: others call what it was by a new name, and if it has a
    gradient of its own, so does @main."""
    main = mod.var("main")
    func = mod[main]
    assert isinstance(func, Function)
    is_marked = bool(func.attrs.get(GRADIENT))
    if not is_marked and not any(main in body_nodes(f) for gv, f in mod.graph_functions() if gv != main):
        return mod
    own = GlobalVar(Names(mod).new("main"), ty=main.ty)
    functions = {gv: rename_globals(f, {main: own}) for gv, f in mod.functions.items()}
    func = cast("Function", functions[main])
    functions[own] = cast("Function", rename_bound(func))
    if is_marked:
        assert isinstance(func.ty, FuncType)
        call = Call(own, func.params, None, func.type_params, ty=func.ty.ret, span=func.span)
        functions[main] = replace(func.without_attr(GRADIENT), body=call)
    return infer(mod.with_functions(functions))
