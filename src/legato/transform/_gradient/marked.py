"""Functions of the module that are differentiated as if they were operators.

    def @f(%x: …, Gradient="f_back") { … }      the user's own gradient: @f_back(%x, %dy) gives the tuple of gradients
    def @f(%x: …, Remat=1) { … }                the backward pass computes again what it needs, from the arguments:
                                                nothing inside of @f is kept for it

Differentiation sees a call of such a function as the call of an operator, whose rule calls the other function. In
forward mode, which takes the transpose of rules, that one is an operator as well; nothing is kept there for later, and
Remat means nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from legato.base.errors import CompileError, InternalError, UnsupportedError
from legato.base.graph import components
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Expr, Function, GlobalVar
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import FuncType, TupleType, Type
from legato.ir.visit import rename_globals
from legato.transform._call_graph import callees, reachable_from, values
from legato.transform._closures import Names
from legato.transform._external import is_own
from legato.transform._gradient.nodes import is_data
from legato.transform._values import written_out
from legato.transform.to_a_normal import ToANormal

__all__ = ["GRADIENT", "REMAT", "Marked", "merged", "own_gradients", "reached", "require_no_local_gradients"]

Derived = Callable[[Module, GlobalVar], tuple[Module, GlobalVar]]
Rule = Callable[[Builder, Call, Expr], list[Expr | None]]
GRADIENT: Final = "Gradient"
REMAT: Final = "Remat"


class Marked:
    """The marked functions of a module, and the module in which they look like operators.

    backward: (module, function with Remat) → module with its gradient, and the name of that; None: in forward mode.
    transposed: (module, gradient of a function) → module with its transpose, and the name of that; in forward mode.
    """

    def __init__(self, mod: Module, backward: Derived | None = None, transposed: Derived | None = None) -> None:
        self._functions: dict[Expr, GlobalVar] = {}
        self._backward, self._transposed = backward, transposed
        mod = self._called(mod)
        calls = callees(mod)
        for component in components(calls):
            for gv in component:
                func = mod.functions[gv]
                if isinstance(func, Function) and self._is_marked(func):
                    _require_data(gv, func)
                    if gv in calls[gv] or len(component) > 1:
                        raise UnsupportedError(f"@{gv.name} has a gradient of its own, and calls itself",
                                               span=func.span, hint="mark a function that it calls")  # fmt: skip
                    mod, rule = self._rule(mod, gv, func)
                    mod = self._renamed(mod, {gv: self._operator(gv, func, rule)})
        self.module = mod

    def _is_marked(self, func: Function) -> bool:
        return bool(func.attrs.get(GRADIENT) or (self._backward is not None and func.attrs.get(REMAT)))

    def _called(self, mod: Module) -> Module:
        """`mod`, in which marked functions are called where they were values. UnsupportedError for local ones."""
        functions = dict(mod.graph_functions())
        marked = {gv for gv, func in functions.items() if self._is_marked(func)}
        require_no_local_gradients(functions.values())
        if marked.isdisjoint(values(mod)):
            return mod
        written = {gv: written_out(f, mod, marked.__contains__) for gv, f in functions.items() if is_own(f)}
        return ToANormal()(mod.with_functions({**mod.functions, **written}))

    def _rule(self, mod: Module, gv: GlobalVar, func: Function) -> tuple[Module, Rule]:
        """The rule of a marked function, and the module with what it calls."""
        own = func.attrs.get(GRADIENT)
        if not own:
            assert self._backward is not None
            mod, other = self._backward(mod, gv)
            return mod, _rule(other)
        other = _named(mod, gv, func, str(own))
        if self._transposed is None:
            return mod, _rule(other)
        gradient = mod[other]
        assert isinstance(gradient, Function)
        mod, transpose = self._transposed(mod, other)
        return mod, _rule(self._operator(other, gradient, _transposed_rule(transpose)))

    def _operator(self, gv: GlobalVar, func: Function, rule: Rule) -> Op:
        names = tuple(p.name for p in func.params)
        op = Op(f"@{gv.name}", names, _no_relation, _no_relation, grad=rule)
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


def merged(mod: Module, made: Module, functions: Mapping[GlobalVar, Function]) -> Module:
    """`mod` with what `made`, which was made of some of its functions, has beside its @main, and with `functions`,
    whose bodies are of `made`: new ones with names of their own."""
    names, main = Names(mod), made.var("main")
    added = [gv for gv in made.functions if gv not in mod.functions and gv != main]
    new = {gv: GlobalVar(name, ty=gv.ty) for gv in added if (name := names.new(gv.name)) != gv.name}
    found = {**made.functions, **functions}
    del found[main]
    renamed = {new.get(gv, gv): rename_globals(f, new) for gv, f in found.items()}
    return replace(mod, functions={**mod.functions, **renamed}, types=made.types)


def _no_relation(*types: Any) -> Any:
    raise InternalError(
        "a marked function is asked as if it were an operator"
    )  # it is one while its rule is asked only


def _rule(backward: GlobalVar | Op) -> Rule:
    def grad(b: Builder, call: Call, dy: Expr) -> list[Expr | None]:
        types = tuple(_type(arg) for arg in call.args)
        back = Call(backward, (*call.args, dy), None, call.type_args, ty=TupleType(types), span=call.span)
        return [b.get(back, n) for n in range(len(types))]

    return grad


def _transposed_rule(transpose: GlobalVar) -> Rule:
    """The rule of a gradient (x…, dy) → (dx…), which is linear in dy: that of dy alone."""

    def grad(b: Builder, call: Call, dz: Expr) -> list[Expr | None]:
        *args, dy = call.args
        made = Call(transpose, (*args, dz), None, call.type_args, ty=dy.ty, span=call.span)
        return [*(None for _ in args), made]

    return grad


def _type(node: Expr) -> Type:
    assert node.ty is not None
    return node.ty


def own_gradients(mod: Module) -> Mapping[GlobalVar, GlobalVar]:
    """The gradients of functions that have one of their own: nothing calls these yet."""
    named = {gv.name: gv for gv in mod.functions}
    found = ((gv, named.get(str(f.attrs.get(GRADIENT)))) for gv, f in mod.graph_functions())
    return {gv: gradient for gv, gradient in found if gradient is not None}


def reached(mod: Module, roots: Iterable[GlobalVar]) -> set[GlobalVar]:
    """The functions that these call, and the gradients of functions among them."""
    own = own_gradients(mod)
    calls = {gv: [*called, *([own[gv]] if gv in own else [])] for gv, called in callees(mod).items()}
    return reachable_from(roots, calls)


def require_no_local_gradients(functions: Iterable[Function]) -> None:
    """UnsupportedError for a function inside of these that has a gradient of its own."""
    for func in functions:
        for node in body_nodes(func):
            if isinstance(node, Function) and node.attrs.get(GRADIENT):
                raise UnsupportedError("a function inside of another one has a gradient of its own", span=node.span,
                                       hint="make it a function of the module")  # fmt: skip


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
