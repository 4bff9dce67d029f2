"""Sizes that symbolic dims may make impossible are checked when the program runs: extents that could be negative,
tensors of more elements than machine integers count, whether or not memory is ever asked for them.

y = max_pool2d(x) over windows of 3:  Tensor[(n, c, h - 2, w - 2)]      requires  0 <= h - 2  and  0 <= w - 2
                                                                        and  n * c * (h - 2) * (w - 2) <= 2^62
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from legato.arith.expr import Binary, Const, Expr, Op, const, le, max_, min_
from legato.arith.prove import prove
from legato.arith.substitute import nodes
from legato.base.errors import UnsupportedError
from legato.ir import expr as ir
from legato.ir import op as operator
from legato.ir.constraint import Constraint
from legato.ir.contents import body_nodes
from legato.ir.types import TensorType, TupleType, Type

__all__ = ["with_extent_checks"]

_FEW: Final = 1 << 16
MOST: Final = 1 << 62  # elements of a tensor: their offsets are exact, in bits too where they are bytes


def with_extent_checks(func: ir.Function) -> ir.Function:
    """`func` (typed) with a constraint for each extent in it that is not provably 0 or more, and for each number of
    elements that is not provably a machine integer. UnsupportedError for a literal number that is none.

    A constraint is an equality, so `0 <= d` is written `d == max(d, 0)`.
    """
    found: dict[Expr, Constraint] = {}
    seen: set[tuple[Expr, ...]] = set()
    for node in body_nodes(func):
        if not isinstance(node, ir.Call) or not isinstance(node.op, operator.Op):
            continue
        for shape in _shapes(node.ty):
            if shape in seen:
                continue
            seen.add(shape)
            for d in shape:
                if not isinstance(d, Const) and d not in found and not _is_natural(d):
                    found[d] = Constraint(d, max_(d, const(0)), f"{node.op.name}: an extent of the result", node.span)
            count = _elements(shape)
            if isinstance(count, Const) and count.value > MOST:
                hint = "no machine holds it: give a smaller shape"
                raise UnsupportedError(f"{node.op.name}: a tensor of {count.value} elements", span=node.span, hint=hint)
            if _is_large(count) and count not in found and not prove(le(count, const(MOST))):
                what = f"out of memory: the elements of the result of {node.op.name}"
                found[count] = Constraint(count, min_(count, const(MOST)), what, node.span)
    if not found:
        return func
    given = func.attrs.get("constraints", ())
    return replace(func, attrs={**func.attrs, "constraints": (*given, *found.values())})


def _is_natural(d: Expr) -> bool:
    return prove(le(const(0), d))


def _elements(shape: tuple[Expr, ...]) -> Expr:
    total: Expr = const(1)
    for d in shape:
        total = total * d
    return total


def _is_large(count: Expr) -> bool:
    """Whether dims are multiplied with each other, or one with a large number: one of them alone is as long as an
    argument is, of 2^46 elements at most."""
    factors = [n.b for n in nodes(count) if isinstance(n, Binary) and n.op is Op.MUL and isinstance(n.b, Const)]
    return any(f.value > _FEW for f in factors) or any(
        _degree(n) > 1 for n in nodes(count) if isinstance(n, Binary) and n.op is Op.MUL
    )


def _degree(e: Expr) -> int:
    """How many dims are factors of `e`, a product."""
    if isinstance(e, Binary) and e.op is Op.MUL:
        return _degree(e.a) + _degree(e.b)
    return 0 if isinstance(e, Const) else 1


def _shapes(ty: Type | None) -> Iterator[tuple[Expr, ...]]:
    if isinstance(ty, TensorType):
        yield ty.shape
    if isinstance(ty, TupleType):
        for f in ty.fields:
            yield from _shapes(f)
