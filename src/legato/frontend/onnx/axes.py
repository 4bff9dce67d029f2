"""Axes that only the data decides: the program chooses among all that there may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, permutations
from math import comb, perm

import numpy as np

from legato.arith.expr import Const, const, fresh
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, TypeCheckError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.let import lets
from legato.ir.types import Dim, TensorType
from legato.ops._rules import sides_of_least

__all__ = ["over_axes"]

_MOST = 64  # choices: branches in each other

Make = Callable[[Expr, tuple[int, ...]], Expr]
Choices = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def over_axes(b: Emitter, x: Expr, axes: Expr, make: Make, *, rank: int = 0, ordered: bool = False) -> Expr:
    """What `make` gives for `x` and the axes that the tensor `axes` lists, of a tensor of `rank` (0: that of `x`).

    Known axes are given as they are; others counted from the front and, unless they are `ordered`, ascending. What
    `make` demands of the extents of `x` is demanded of those axes only. Axes that there are not, or twice, end a call.
    """
    count, rank = b.product(b.dims_of(axes)), rank or b.rank(x)
    known = () if count is const(0) else b.known_dims(axes)
    if known is not None and all(isinstance(d, Const) for d in known):
        return make(x, () if count is const(0) else b.ints(axes, "the axes"))
    number = int(count.value) if isinstance(count, Const) else -1
    ways = (perm if ordered else comb)(rank, number) if number >= 0 else 0
    if not 0 < ways <= _MOST:
        raise UnsupportedError(
            f"the data decides the axes, {axes.ty}, of a tensor of rank {rank}: {ways or 'no'} choices"
        )
    choose = permutations if ordered else combinations
    choices = [c for c in choose(range(rank), number) if _is_possible(b, x, c, make)]
    if not choices:
        raise UnsupportedError(f"no axes of {x.ty} can be meant")
    flags = _flags(b, axes, rank, np.array(choices, np.int64), ordered)
    surplus = b.dim(b.subtract(b.sum(b.cast(flags, dtype=dt.int64)), b.constant(1, dt.int64)), "axes")
    b.require(*sides_of_least(surplus, const(0)), "the axes are some that there are")
    *others, result = _branches(b, x, choices, make)
    for n, branch in reversed(list(enumerate(others))):
        result = b.if_(b.take(flags, b.constant(n, dt.int64), axis=0, mode="fast"), branch, result)
    return result


def _is_possible(b: Emitter, x: Expr, choice: tuple[int, ...], make: Make) -> bool:
    """Whether `make` can do with these axes of `x`."""
    forget = b.trial()
    try:
        with b.bindings():
            make(x, choice)
    except (ImportModelError, TypeCheckError):
        return False
    finally:
        forget()
    return True


def _flags(b: Emitter, axes: Expr, rank: int, choices: Choices, ordered: bool) -> Expr:
    """For each of the choices, whether `axes` are these."""
    given, zero = b.reshape(b.to(axes, dt.int64), newshape=(1, choices.shape[1])), b.constant(0, dt.int64)
    given = b.where(b.less(given, zero), b.add(given, b.constant(rank, dt.int64)), given)
    if not ordered:
        given = b.sort(given, axis=1)
    return b.all(b.equal(given, b.constant(choices)), axis=(1,))


def _branches(b: Emitter, x: Expr, choices: Sequence[tuple[int, ...]], make: Make) -> list[Expr]:
    """What `make` gives for each choice, all of one type: extents that differ are dims of their own."""
    made = []
    for choice in choices:
        with b.bindings() as bound:
            made.append((bound, make(b.let("x", _opened(b, x, b.dims_of(x))), choice)))
    types = [b.type_of(value) for _, value in made]
    differ = [len({ty.shape[d] for ty in types}) > 1 for d in range(types[0].rank)]
    return [lets(bound, _opened(b, value, [d for d, other in zip(b.dims_of(value), differ, strict=True) if other]))
            for bound, value in made]  # fmt: skip


def _opened(b: Emitter, x: Expr, dims: Sequence[Dim]) -> Expr:
    """`x` with new dims in the place of `dims`."""
    shape = tuple(fresh("d", 0) if d in dims else d for d in b.dims_of(x))
    return b.match_cast(x, TensorType(shape, b.dtype(x)))
