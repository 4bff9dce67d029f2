"""Subscripts that come from data: every rule gives a place inside the dimension, or says that there is none.

clip    clamped to [0, n − 1]
wrap    modulo n
fast    a negative subscript counts from the end; then clamped
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Expr, Var, const, floormod, ge, gt, land, lt, max_, min_, select
from legato.base import dtype as dt
from legato.ir.types import Dim
from legato.ops._tensors import Array, known_int
from legato.tir.expr import cast

__all__ = ["MODES", "covers", "guarded", "inside", "place", "places", "targets", "wrapped"]

MODES = ("clip", "wrap", "fast")


def wrapped(subscript: Expr, n: Dim) -> Expr:
    """`subscript` (of an integer dtype) as an index; a negative one counts from the end."""
    i = cast(subscript, dt.index)
    return i + select(lt(i, 0), n, const(0))


def place(subscript: Expr, n: Dim, mode: str) -> Expr:
    """The index that `subscript` (of an integer dtype) means in a dimension of `n` > 0 elements."""
    if mode == "wrap":
        return floormod(cast(subscript, dt.index), n)
    i = cast(subscript, dt.index) if mode == "clip" else wrapped(subscript, n)
    return max_(min_(i, n - 1), const(0))


def guarded(dims: Sequence[Dim], value: Expr) -> Expr:
    """`value`, which reads from dimensions `dims`; 0 where one of them is empty."""
    some: Expr = const(True, dt.bool_)
    for n in dims:
        if (known_int(n) or 0) <= 0 and not (isinstance(n, Var) and (n.lo or 0) > 0):
            some = land(some, gt(n, 0))
    return select(some, value, const(0, value.dtype))


def covers(n: Dim, asked: Dim) -> bool:
    """Whether every index below `asked` is known to be below `n`."""
    have, want = known_int(n), known_int(asked)
    return n is asked or (have is not None and want is not None and want <= have)


def inside(i: Expr, n: Dim) -> Expr:
    """Whether 0 <= i < n."""
    return land(ge(i, 0), lt(i, n))


def places(subscripts: Array, n: int, mode: str) -> Array:
    """As `place`, on an array."""
    i = subscripts.astype(np.int64)
    if mode == "wrap":
        return i % max(n, 1)
    i = i if mode == "clip" else np.where(i < 0, i + n, i)
    return np.clip(i, 0, max(n - 1, 0))


def targets(subscripts: Array, n: int) -> tuple[Array, Array]:
    """Where a scatter writes: indices (a negative one counts from the end), and whether they are inside."""
    i = subscripts.astype(np.int64)
    i = np.where(i < 0, i + n, i)
    return i, (i >= 0) & (i < n)
