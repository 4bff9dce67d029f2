"""Rules of operators, applied: what a call adds to the cotangents of its operands, and the tangent of its result.

Only the rule for cotangents is written by hand. It is linear in the cotangent, so that its own transpose, which the
same rules give, is the map of tangents: for y = f(x), (dy ↦ Jᵀ dy)ᵀ = (dx ↦ J dx).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.arith.prove import provably_different
from legato.base.errors import CompileError, UnsupportedError
from legato.base.node import post_order, rebuild
from legato.infer.builder import Builder
from legato.ir.atoms import is_atom
from legato.ir.expr import Call, Expr, Tuple, TupleGetItem, Var
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type
from legato.transform._gradient.cotangents import Cotangent, is_continuous, name_for

__all__ = ["bound", "contributions"]


def contributions(b: Builder, var: Var, call: Call, dy: Expr, wanted: Callable[[Expr], bool]) -> list[Cotangent]:
    """What the cotangent `dy` of `call`, whose value is in `var`, adds to those of its operands, bound.

    None for operands that are not `wanted`: nothing is computed for them.

    UnsupportedError where the operator has no rule; CompileError where what its rule gives does not fit.
    """
    op = call.op
    assert isinstance(op, Op)
    if op.grad is None:
        raise UnsupportedError(
            f"the operator {op.name} has no gradient", span=call.span,
            hint='give its record a rule (Op.grad), call it in a function with its own gradient (Gradient="NAME"), '
                 "or keep gradients from it with stop_gradient",
        )  # fmt: skip
    with b.at(call.span):
        given = list(op.grad(b, call, dy))
        if len(given) != len(call.args):
            raise CompileError(f"the gradient of {op.name} gives {len(given)} values for {len(call.args)} arguments")
        known: dict[int, Expr] = {id(call): var}
        pairs = zip(call.args, given, strict=True)
        return [_checked(b, call, arg, arg.ty, _of_wanted(arg, g, wanted), known) for arg, g in pairs]


def _of_wanted(arg: Expr, given: Any, wanted: Callable[[Expr], bool]) -> Any:
    """What a rule gives for an argument, without the fields of a tuple that are not wanted."""
    if not wanted(arg):
        return None
    if isinstance(arg, Tuple) and isinstance(given, tuple | list):
        return tuple(_of_wanted(field, g, wanted) for field, g in zip(arg.fields, given, strict=True))
    return given


def _checked(b: Builder, call: Call, arg: Expr, ty: Type | None, given: Any, known: dict[int, Expr]) -> Cotangent:
    """What a rule gives for an argument, or a field of one, of type `ty`, bound; None for what is no float."""
    if given is None or not is_continuous(ty):
        return None
    if isinstance(ty, TupleType):
        parts = given if isinstance(given, tuple | list) else [b.get(given, n) for n in range(len(ty.fields))]
        return tuple(_checked(b, call, arg, t, g, known) for t, g in zip(ty.fields, parts, strict=True))
    if not isinstance(given, Expr) or not isinstance(ty, TensorType) or not _fits(given.ty, ty):
        name = getattr(call.op, "name", "")
        got = getattr(given, "ty", type(given).__name__)
        raise CompileError(f"the gradient of {name} has type {got} for an argument of type {ty}", span=call.span)
    return bound(b, given, known, name_for(arg))


def _fits(got: Type | None, wanted: TensorType) -> bool:
    """Whether nothing is known that tells the types apart."""
    if not isinstance(got, TensorType) or got.dtype != wanted.dtype or got.rank != wanted.rank:
        return False
    return not any(map(provably_different, got.shape, wanted.shape))


def bound(b: Builder, expr: Expr, known: dict[int, Expr], name: str = "d") -> Expr:
    """`expr`, made of operators, with every node but tuples bound to a variable, the last one to `name`.

    known: the atoms of nodes met before.
    """
    for node in post_order([expr], lambda n: id(n) not in known and not is_atom(n)):
        if id(node) in known:
            continue
        if isinstance(node, Call | Tuple | TupleGetItem) or is_atom(node):
            fresh = rebuild(node, known)
            known[id(node)] = _bound_node(b, fresh, name if node is expr else "d")
        else:
            kind = type(node).__name__
            hint = "give what the rule needs by operators: where, zeros_like, sums"
            raise UnsupportedError(f"a gradient rule is made of operators, not of {kind}", span=node.span, hint=hint)
    return known[id(expr)]


def _bound_node(b: Builder, node: Expr, name: str) -> Expr:
    return node if is_atom(node) or isinstance(node, Tuple) else b.let(name, node)
