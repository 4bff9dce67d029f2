"""What the dims of one type are, told by another type that the same value has."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from legato.arith.expr import Const, const, floordiv, max_
from legato.arith.expr import Var as DimVar
from legato.arith.prove import prove_equal
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute, variables
from legato.ir.types import Dim, ShapeType, TensorType, Type

__all__ = ["dim_pairs", "dim_values", "solved"]


def dim_pairs(a: Type, b: Type) -> Iterator[tuple[Dim, Dim]]:
    """The dims of two types of one form, side by side."""
    todo = [(a, b)]
    while todo:
        a, b = todo.pop()
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            yield from zip(a.shape, b.shape, strict=True)
        elif isinstance(a, ShapeType) and isinstance(b, ShapeType):
            yield from zip(a.dims or (), b.dims or (), strict=False)
        else:
            todo += reversed(list(zip(a.children(), b.children(), strict=False)))


def dim_values(got: Type, wanted: Type, new: Collection[DimVar]) -> dict[DimVar, Dim]:
    """The values of the dims `new` for which type `wanted` is `got`, as far as they can be told."""
    found: dict[DimVar, Dim] = {}
    pairs = list(dim_pairs(got, wanted))
    for _ in range(len(new)):
        before = len(found)
        for a, b in pairs:
            b = substitute(b, found)
            left = [d for d in variables(b) if d in new and d not in found]
            if len(left) == 1:
                value = solved(left[0], b, a)
                found.update({} if value is None else {left[0]: value})
        if len(found) in (before, len(new)):
            break
    return found


def solved(d: DimVar, wanted: Dim, got: Dim) -> Dim | None:
    """The value of `d` for which `wanted` is `got`, if there is one; None where `wanted` is not linear in `d`."""
    if wanted is d:
        return got
    start = simplify(substitute(wanted, {d: const(0)}))
    step = simplify(substitute(wanted, {d: const(1)}) - start)
    if not isinstance(step, Const) or step.value == 0 or not prove_equal(wanted, start + d * step):
        return None
    return simplify(max_(floordiv(got - start, step), const(0)))
