"""Sums over a flattened tensor, over the dimensions that it was flattened from.

    Σ_k x[n, k // 49, k // 7 % 7, k % 7] · w[u, k]   =   Σ_c Σ_h Σ_w x[n, c, h, w] · w[u, 49·c + 7·h + w]

No subscript divides any more, and the sum may follow the memory of x, whatever its layout.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from legato.arith.expr import Binary, Const, Expr, Op, Var, const
from legato.arith.substitute import nodes, substitute
from legato.lower.access import extent_of, stride
from legato.lower.conditions import simplified
from legato.te.inline import loads
from legato.te.tensor import Axis, Reduction

__all__ = ["parted", "unflatten"]


def unflatten(body: Expr, axes: Iterable[Axis], reduction: Reduction) -> tuple[Expr, Reduction]:
    """The sum of `body` over `reduction`, each axis of known extent cut into those that its subscripts tell apart;
    `axes` are the others."""
    found: list[Axis] = []
    cut: dict[Var, Expr] = {}
    for axis in reduction.axes:
        parts, value = parted(axis, body)
        found += parts
        if len(parts) > 1:
            cut[axis.var] = value
    if not cut:
        return body, reduction
    over = Reduction(reduction.combiner, tuple(found), reduction.init)
    return simplified(substitute(body, cut), (*axes, *found)), over


def parted(axis: Axis, body: Expr) -> tuple[list[Axis], Expr]:
    """The axes that `axis` is cut into, and its value in terms of them; itself where memory is flat along it, too, or
    where no subscript divides it, or not by numbers each of which divides the next."""
    extent = extent_of(axis.extent) or 0
    steps = [1, *sorted(step for step in _divisors(axis.var, body) if 1 < step < extent), extent]
    is_undivided = len(steps) == 2 or any(larger % smaller for smaller, larger in pairwise(steps))
    if is_undivided or all(stride(read, axis.var) is not None for read in loads(body)):
        return [axis], axis.var
    parts: list[Axis] = []
    value: Expr = const(0)
    for step, larger in pairwise(steps):
        parts.insert(0, Axis(Var(axis.var.name, lo=0), const(larger // step)))
        value = value + parts[0].var * step
    return parts, value


def _divisors(var: Var, body: Expr) -> set[int]:
    """By what subscripts divide `var`: of var // 7 % 5, by 7 and 35."""
    every = (_digit(n, var) for x in loads(body) for i in x.indices for n in nodes(i))
    return {step for digit in every if digit is not None for step in digit}


def _digit(e: Expr, var: Var) -> tuple[int, ...] | None:
    """(d,) if `e` is var // d, (d, m) if it is var // d % (m // d); None for others."""
    if e is var:
        return (1,)
    if not isinstance(e, Binary) or e.op not in (Op.FLOORDIV, Op.FLOORMOD) or not isinstance(e.b, Const):
        return None
    inner, by = _digit(e.a, var), int(e.b.value)
    if inner is None:
        return None
    first, *last = inner
    return (first * by, *last) if e.op is Op.FLOORDIV else (first, first * by)
