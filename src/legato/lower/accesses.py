"""Subscripts of operators: proven within the operands' shapes, checked when the program is called, or clamped.

What an operator's type relation demands of dims is a constraint of the function and counts in the proof. A subscript
that is not proven becomes a constraint itself where it is linear in the axes:

    y[i] = x[i + k], for i < n, of x with m elements        requires  n == 0 or 0 <= k and n + k <= m

Any other, of data or of products and quotients of dims that are beyond the proof, is clamped: the primitive function
that holds its operator gets the attribute `clamp`, and its stages are made with clamped subscripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from legato.arith.assume import Assumptions
from legato.arith.expr import Expr, Select, Var, const, land, le, max_, min_, select
from legato.arith.linear import factors
from legato.arith.poly import expand
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, substitute
from legato.base import dtype as dt
from legato.base.node import transform
from legato.ir import expr as ir
from legato.ir.constraint import Constraint
from legato.ir.contents import body_nodes
from legato.ir.op import Op
from legato.ir.types import TensorType, TupleType, Type
from legato.lower.extents import MOST
from legato.te.access import CLAMP, Access, Proof, accesses
from legato.te.definition import defined
from legato.te.tensor import Tensor, placeholder
from legato.tir.expr import Load

__all__ = ["call_accesses", "known_facts", "with_access_checks"]

Proofs = dict[object, tuple[Access, ...]]  # what is not proven in a call, by its operator, attributes and types


def with_access_checks(func: ir.Function) -> ir.Function:
    """`func` (typed, fused) with a constraint, or with clamped subscripts, where its operators may read outside."""
    given: tuple[Constraint, ...] = func.attrs.get("constraints", ())
    known = known_facts(given)
    found: dict[tuple[Expr, Expr], Constraint] = {}
    open_groups: dict[int, ir.Function] = {}
    proofs: Proofs = {}
    for group in body_nodes(func):
        if not isinstance(group, ir.Function) or "Primitive" not in group.attrs:
            continue
        for access, call in _open(group, known, proofs):
            demands = list(_demands(call, access))
            found |= {(c.a, c.b): c for c in demands}
            if not demands:
                open_groups[id(group)] = replace(group, attrs={**group.attrs, CLAMP: 1})
    if open_groups:
        func = replace(func, body=transform(func.body, lambda e: open_groups.get(id(e))))
    if not found:
        return func
    return replace(func, attrs={**func.attrs, "constraints": (*given, *found.values())})


def _open(group: ir.Function, facts: Sequence[Expr], proofs: Proofs) -> Iterator[tuple[Access, ir.Call]]:
    """What is not proven in `group`; calls of the same types, of which models have many, are proven once for all."""
    seen: set[object] = set()
    for node in body_nodes(group):
        if isinstance(node, ir.Call) and isinstance(node.op, Op) and node.op.compute is not None:
            key = (node.op, node.attrs, tuple(a.ty for a in node.args), node.ty)
            if key in seen:
                continue
            seen.add(key)
            if key not in proofs:
                proofs[key] = tuple(a for a in call_accesses(node, facts) if a.proof is Proof.OPEN)
            yield from ((a, node) for a in proofs[key])


def known_facts(constraints: Iterable[Constraint]) -> tuple[Expr, ...]:
    """The equalities of a function as expressions that are at least 0. That tensors have at most `MOST` elements says
    nothing of subscripts, and is said of nearly every tensor: proofs go without it."""
    stated = [c for c in constraints if c.b is not min_(c.a, const(MOST))]
    return tuple(e for c in stated for e in (c.a - c.b, c.b - c.a))


def call_accesses(call: ir.Call, facts: Sequence[Expr] = ()) -> Iterator[Access]:
    """The subscripts of one operator's definition, on operands of the call's types."""
    op = call.op
    assert isinstance(op, Op)
    operands = [
        _operand(a.ty, f"x{n}" if n >= len(op.args) else op.args[n].lstrip("*")) for n, a in enumerate(call.args)
    ]
    yield from accesses(_leaves(defined(op, operands, call.attrs, call.ty, call.span, facts)), facts)


def _operand(ty: Type | None, name: str) -> Any:
    if isinstance(ty, TupleType):
        return tuple(_operand(f, f"{name}{n}") for n, f in enumerate(ty.fields))
    assert isinstance(ty, TensorType)
    return placeholder(name, ty.shape, ty.dtype)


def _leaves(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    else:
        for v in value:
            yield from _leaves(v)


# ---------------------------------------------------------------------------------------------------- what is open


def _demands(call: ir.Call, access: Access) -> Iterator[Constraint]:
    """The constraints under which an access is inside: of its least and its largest subscript, if there is any. None
    where the subscript is not linear in the axes."""
    op = call.op
    assert isinstance(op, Op)
    extent = access.extent
    ends = _ends(access)
    if ends is None:
        return
    always: Expr = const(True, dt.bool_)
    runs = reduce(land, (le(const(1), e) for e in access.extents.values()), always)
    least, most = ends
    what = f"{op.name}: dimension {access.axis} of {access.load.buffer.name} is read inside"
    for gap in (least, extent - 1 - most):
        needed = simplify(select(simplify(runs), gap, const(0)))
        yield Constraint(needed, simplify(max_(needed, const(0))), what, call.span)


def _ends(access: Access) -> tuple[Expr, Expr] | None:
    """The least and the largest value of a subscript that is linear in the axes; None for another."""
    terms, _ = expand(simplify(access.subscript))
    low: dict[Var, Expr] = {}
    high: dict[Var, Expr] = {}
    known = Assumptions(access.extents)
    for t, c in terms.items():
        axes = [n for n in nodes(t) if isinstance(n, Var) and n in access.extents]
        if not axes:
            continue
        others = [x for x in factors(t) if x is not axes[0]]
        if len(axes) > 1 or len(others) + 1 != len(factors(t)) or axes[0] in low:
            return None
        if not all(known.nonnegative(x) for x in others):
            return None
        first, last = const(0), access.extents[axes[0]] - 1
        low[axes[0]], high[axes[0]] = (first, last) if c > 0 else (last, first)
    if any(isinstance(n, Load | Select) for n in nodes(access.subscript)):
        return None
    return simplify(substitute(access.subscript, low)), simplify(substitute(access.subscript, high))
