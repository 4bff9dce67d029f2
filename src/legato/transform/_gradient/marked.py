"""Functions of the module that are differentiated as if they were operators.

    def @f(%x: …, Gradient="f_back") { … }      the user's own gradient: @f_back(%x, %dy) gives the tuple of gradients
    def @f(%x: …, Remat=1) { … }                the backward pass computes again what it needs, from the arguments:
                                                nothing inside of @f is kept for it

Differentiation sees a call of such a function as the call of an operator, whose rule calls the other function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from legato.base.errors import CompileError, UnsupportedError
from legato.base.graph import components
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr, Function, GlobalVar
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import FuncType, TupleType, Type
from legato.transform._call_graph import callees
from legato.transform._gradient.nodes import is_data

__all__ = ["GRADIENT", "REMAT", "Marked"]

GRADIENT: Final = "Gradient"
REMAT: Final = "Remat"


class Marked:
    """The marked functions of a module, and the module in which they look like operators.

    backward: (module, marked function) → module with another function, and the name of it.
    """

    def __init__(self, mod: Module, backward: Callable[[Module, GlobalVar], tuple[Module, GlobalVar]]) -> None:
        self._functions: dict[Expr, GlobalVar] = {}
        calls = callees(mod)
        for component in components(calls):
            for gv in component:
                func = mod.functions[gv]
                if isinstance(func, Function) and (func.attrs.get(GRADIENT) or func.attrs.get(REMAT)):
                    _require_data(gv, func)
                    if gv in calls[gv] or len(component) > 1:
                        raise UnsupportedError(f"@{gv.name} has a gradient of its own, and calls itself",
                                               span=func.span, hint="mark a function that it calls")  # fmt: skip
                    own = func.attrs.get(GRADIENT)
                    mod, other = (mod, _named(mod, gv, func, str(own))) if own else backward(mod, gv)
                    mod = self._renamed(mod, {gv: self._operator(gv, func, other)})
        self.module = mod

    def _operator(self, gv: GlobalVar, func: Function, backward: GlobalVar) -> Op:
        names = tuple(p.name for p in func.params)
        op = Op(f"@{gv.name}", names, _no_relation, _no_relation, grad=_rule(backward))
        self._functions[op] = gv
        return op

    def restored(self, mod: Module) -> Module:
        """`mod` with calls of the functions in place of those of operators."""
        return self._renamed(mod, self._functions)

    @staticmethod
    def _renamed(mod: Module, names: Mapping[Any, Expr]) -> Module:
        if not names:
            return mod

        def callee(node: Expr) -> Expr | None:
            return replace(node, op=names[node.op]) if isinstance(node, Call) and node.op in names else None

        changed = {gv: transform(cast("Expr", f), callee) for gv, f in mod.graph_functions()}
        return mod.with_functions({**mod.functions, **cast("dict[GlobalVar, Function]", changed)})


def _no_relation(*types: Any) -> Any:
    raise NotImplementedError  # it is gone before anybody asks


def _rule(backward: GlobalVar) -> Callable[[Builder, Call, Expr], list[Expr]]:
    def grad(b: Builder, call: Call, dy: Expr) -> list[Expr]:
        types = tuple(_type(arg) for arg in call.args)
        back = Call(backward, (*call.args, dy), None, call.type_args, ty=TupleType(types), span=call.span)
        return [b.get(back, n) for n in range(len(types))]

    return grad


def _type(node: Expr) -> Type:
    assert node.ty is not None
    return node.ty


def _require_data(gv: GlobalVar, func: Function) -> None:
    assert isinstance(func.ty, FuncType)
    for ty in (*func.ty.params, func.ty.ret):
        if not is_data(ty):
            raise UnsupportedError(f"@{gv.name} has a gradient of its own, and takes or gives a value of type {ty}",
                                   span=func.span, hint="such functions take and give tensors")  # fmt: skip


def _named(mod: Module, gv: GlobalVar, func: Function, name: str) -> GlobalVar:
    """The user's function for gradients. CompileError where there is none, or its type does not fit."""
    if name not in mod:
        raise CompileError(f"@{gv.name} has the gradient @{name}, which is no function of the module", span=func.span)
    other, ty = mod.var(name), func.ty
    found = mod[other].ty if isinstance(mod[other], Function) else None  # type: ignore[union-attr]
    assert isinstance(ty, FuncType)
    wanted = FuncType((*ty.params, ty.ret), TupleType(ty.params), ty.type_params)
    if not isinstance(found, FuncType) or len(found.params) != len(wanted.params):
        raise CompileError(f"@{name} has type {found}, wanted {wanted}", span=func.span,
                           hint="a gradient takes the arguments and the cotangent of the result")  # fmt: skip
    return other
