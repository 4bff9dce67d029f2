"""Intersection over union of two boxes, each given by two opposite corners in any order: what suppression goes by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from legato.arith.expr import Expr, const, gt, max_, min_, select
from legato.ops._tensors import Array

__all__ = ["share", "share_array"]


def share_array(a: Array, b: Array) -> float:
    """Of boxes of four numbers; 0 where the union has no area."""
    (p, q), (r, s) = ((np.minimum(v[:2], v[2:]), np.maximum(v[:2], v[2:])) for v in (a, b))
    both = np.prod(np.maximum(np.minimum(q, s) - np.maximum(p, r), 0))
    union = np.prod(q - p) + np.prod(s - r) - both
    return float(both / union) if union > 0 else 0.0


def share(a: Callable[[int], Expr], b: Callable[[int], Expr]) -> Expr:
    """The same as a scalar: `a` and `b` give the four numbers of their boxes."""
    zero = const(0.0, a(0).dtype)

    def span(box: Callable[[int], Expr], d: int) -> tuple[Expr, Expr]:
        return min_(box(d), box(d + 2)), max_(box(d), box(d + 2))

    def inner(d: int) -> Expr:
        (p, q), (r, s) = span(a, d), span(b, d)
        return max_(min_(q, s) - max_(p, r), zero)

    def area(box: Callable[[int], Expr]) -> Expr:
        (p, q), (r, s) = span(box, 0), span(box, 1)
        return (q - p) * (s - r)

    both = inner(0) * inner(1)
    union = area(a) + area(b) - both
    has_area = gt(union, zero)
    return select(has_area, both / select(has_area, union, const(1.0, union.dtype)), zero)
