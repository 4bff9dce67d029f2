"""Functions as values, written out: operators, constructors, functions of the module and instances of polymorphic ones.

    map(tanh, %xs)      =>      map(fn (%x: float32) -> float32 { tanh(%x) }, %xs)

What they are called with, and what they give, follows from the type that is wanted where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from legato.base.errors import UnsupportedError
from legato.base.span import Span
from legato.ir.attrs import default_attrs
from legato.ir.call_tir import CALL_TIR
from legato.ir.expr import (
    Call,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefWrite,
    Tuple,
    Var,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import operands, post_order
from legato.ir.types import Dim, FuncType, RefType, TupleType, Type
from legato.transform._types import arguments, constructor_type, has_function, instance

__all__ = ["WRAP", "of_type", "with_operands", "written_out"]

WRAP: Final = "wrap it, in each branch that gives it, in a function whose parameters have types: fn (%x: …) { @f(%x) }"


def of_type(value: Expr, ty: Type | None) -> Expr:
    """`value` in the place of an expression of type `ty`, whose dims, where they are others, a cast brings."""
    if ty is None or value.ty is None or value.ty == ty or has_function(ty):
        return value
    return MatchCast(value, ty, ty=ty, span=value.span)


def written_out(func: Function, mod: Module, wanted: Callable[[Expr], bool] | None = None) -> Function:
    """`func` with functions where others are values, or those `wanted`; the same object where there are none."""
    chosen = wanted or _is_function
    new: dict[int, Expr] = {}
    order = list(post_order(func))
    types = _types(order, mod)
    for node in order:
        old = operands(node)
        kids = [new[id(kid)] for kid in old]
        first = 1 if isinstance(node, Call) else 0
        if not isinstance(node, Call) or node.op is not CALL_TIR:
            for n in range(first, len(kids)):
                if chosen(kids[n]):
                    kids[n] = _written(kids[n], _wanted(node, types[id(node)], mod)[n], mod, node.span)
        new[id(node)] = with_operands(node, kids)
    made = new[id(func)]
    assert isinstance(made, Function)
    return made


def with_operands(node: Expr, kids: Sequence[Expr]) -> Expr:
    """`node` with other operands (see `ir.scope.operands`); the same object where none differs."""
    if all(a is b for a, b in zip(operands(node), kids, strict=True)):
        return node
    match node:
        case Let(var):
            return node.with_children((var, *kids))
        case Function(params):
            return node.with_children((*params, *kids))
        case Dataflow(bindings):
            count = len(bindings)
            pairs = [e for (var, _), value in zip(bindings, kids[:count], strict=True) for e in (var, value)]
            return node.with_children((*pairs, *kids[count:]))
        case _:
            return node.with_children(tuple(kids))


def _is_function(node: Expr) -> bool:
    if isinstance(node, Op | Constructor | GlobalVar):
        return True
    return isinstance(node.ty, FuncType) and bool(node.ty.type_params)


def _types(order: Sequence[Expr], mod: Module) -> dict[int, Type | None]:
    """The types of nodes, by id. A let made around an operator has none of its own, but that which is wanted of it."""
    types: dict[int, Type | None] = {}
    for node in reversed(order):
        ty = types.setdefault(id(node), node.ty)
        for kid, wanted in zip(operands(node), _wanted(node, ty, mod), strict=True):
            if isinstance(kid, Let) and kid.ty is None:
                types.setdefault(id(kid), wanted)
    return types


def _wanted(node: Expr, ty: Type | None, mod: Module) -> Sequence[Type | None]:
    """The types that a node of type `ty` wants of its operands, as far as it says."""
    match node:
        case Let(var):
            return (var.ty, ty)
        case Function():
            return (ty.ret if isinstance(ty, FuncType) else node.ret_type,)
        case If():
            return (None, ty, ty)
        case Match():
            return (None, *(ty for _ in node.clauses))
        case Tuple() if isinstance(ty, TupleType):
            return ty.fields
        case Dataflow() if isinstance(ty, TupleType):
            return (*(var.ty for var, _ in node.bindings), *ty.fields)
        case RefCreate() if isinstance(ty, RefType):
            return (ty.value,)
        case RefWrite(ref) if isinstance(ref.ty, RefType):
            return (None, ref.ty.value)
        case Call():
            return (None, *_parameters(node, mod))
        case _:
            return (None,) * len(operands(node))


def _parameters(call: Call, mod: Module) -> Sequence[Type | None]:
    callee = constructor_type(call.op, mod) if isinstance(call.op, Constructor) else call.op.ty
    if not isinstance(callee, FuncType):
        return (None,) * len(call.args)
    return instance(callee, call.type_args).params


def _written(value: Expr, wanted: Type | None, mod: Module, place: Span | None) -> Expr:
    """A function that does what `value` does, of the type that is wanted; where that says less, `value` itself."""
    own = constructor_type(value, mod) if isinstance(value, Constructor) else value.ty
    if not isinstance(wanted, FuncType):
        wanted = own if isinstance(own, FuncType) else None
    if wanted is None:
        raise UnsupportedError(
            f"the type of {getattr(value, 'name', 'a function')} as a value is not known",
            span=value.span or place,
            hint="wrap it in a function whose parameters have types",
        )
    if not isinstance(value, GlobalVar | Op | Constructor) if wanted.type_params else isinstance(value, Let):
        return value  # a name for it: every use says at which types
    params = tuple(Var(f"a{n}", ty=p, span=value.span) for n, p in enumerate(wanted.params))
    args: tuple[Type | Dim, ...] = ()
    if isinstance(own, FuncType) and own.type_params:
        found = arguments(own, wanted)
        if found is None:
            message = f"nothing tells the dims of a function that is a value: {own}"
            hint = "wrap it in a function whose parameters have types, and state the dims in its call: @f[3](%x)"
            raise UnsupportedError(message, details=[f"wanted : {wanted}"], span=value.span or place, hint=hint)
        args = found
    attrs = default_attrs(value) if isinstance(value, Op) else None
    body = Call(value, params, attrs, args, ty=wanted.ret, span=value.span)
    return Function(params, body, wanted.ret, wanted.type_params, ty=wanted, span=value.span)
