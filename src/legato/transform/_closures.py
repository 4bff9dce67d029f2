"""Closures: local functions that only call a function of the module, with values that they hold first."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Var as DimVar
from legato.base.node import transform
from legato.base.span import Span
from legato.ir._names import Names as UniqueNames
from legato.ir.atoms import is_primitive
from legato.ir.expr import Call, Expr, Function, GlobalVar, Let, Shape, Var
from legato.ir.module import Module
from legato.ir.scope import operands, post_order
from legato.ir.types import Dim, FuncType, Type
from legato.transform._types import bound_dims

__all__ = ["Names", "closure", "closure_call", "is_closure", "without_dead"]


class Names:
    """Names for new functions, data types and constructors of a module: each once."""

    def __init__(self, mod: Module) -> None:
        self._globals = UniqueNames([*(gv.name for gv in mod.functions), *(t.name for t in mod.types)])
        self._constructors = UniqueNames(c.name for data in mod.types.values() for c in data.constructors)

    def new(self, name: str) -> str:
        """`name` for a function or a data type, with a number behind it where it is taken."""
        return self._globals.unique(name)

    def constructor(self, name: str) -> str:
        """`name` for a constructor, likewise."""
        return self._constructors.unique(name)


def closure(
    gv: GlobalVar,
    held: Sequence[Expr],
    type_args: tuple[Type | Dim, ...],
    ty: FuncType,
    span: Span | None,
) -> Function:
    """The function of type `ty` that calls `gv` with the values `held` and its own arguments, in A-normal form.

    `type_args` are those of `gv` but for the last, which are the closure's own type parameters.
    """
    params = tuple(Var(f"a{n}", ty=p, span=span) for n, p in enumerate(ty.params))
    call = Call(gv, (*held, *params), None, (*type_args, *ty.type_params), ty=ty.ret, span=span)
    result = Var("y", ty=ty.ret, span=span)
    body = Let(result, call, result, ty=ty.ret, span=span)
    return Function(params, body, ty.ret, ty.type_params, ty=ty, span=span)


def closure_call(func: Expr) -> Call | None:
    """The call that a closure makes, the last arguments being its parameters; None for what is no closure.

    The dims of the function that it calls are those of its parameters or its result: nothing else of it has a place in
    a value.
    """
    if not isinstance(func, Function) or is_primitive(func):
        return None
    body = func.body
    if isinstance(body, Let) and body.body == body.var:
        body = body.value
    if not isinstance(body, Call) or not isinstance(body.op, GlobalVar) or len(body.args) < len(func.params):
        return None
    split = len(body.args) - len(func.params)
    held, own = body.args[:split], body.args[split:]
    if func.type_params != body.type_args[len(body.type_args) - len(func.type_params) :]:
        return None
    if own != func.params or not all(isinstance(a, Shape) or (isinstance(a, Var) and a not in own) for a in held):
        return None
    callee = body.op.ty
    if not isinstance(callee, FuncType):
        return None
    told = bound_dims((*callee.params, callee.ret))
    return body if all(p in told for p in callee.type_params if isinstance(p, DimVar)) else None


def is_closure(var: Var, value: Expr) -> bool:
    """True if `value`, what `var` stands for, is a closure that does not hold itself."""
    call = closure_call(value)
    return call is not None and var not in call.args


def without_dead(root: Expr) -> Expr:
    """`root` without the closures that nothing uses; the same object where every one is used."""
    bound = {n.var: n.value for n in post_order(root) if isinstance(n, Let) and is_closure(n.var, n.value)}
    if not bound:
        return root
    inside = {id(value) for value in bound.values()}
    live: set[Var] = set()
    todo, seen = [root], set[int]()
    while todo:
        node = todo.pop()
        if isinstance(node, Var) and node in bound and node not in live:
            live.add(node)
            todo += operands(bound[node])
        if id(node) not in seen:
            seen.add(id(node))
            todo += [kid for kid in operands(node) if id(kid) not in inside]
    if len(live) == len(bound):
        return root
    dead = bound.keys() - live
    return transform(root, lambda node: node.body if isinstance(node, Let) and node.var in dead else None)
