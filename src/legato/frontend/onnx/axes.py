"""Axes that only the data decides: the program chooses among all that there may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from math import comb

import numpy as np

from legato.arith.expr import Const, const, fresh
from legato.base import dtype as dt
from legato.base.errors import ImportModelError, TypeCheckError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.let import lets
from legato.ir.types import Dim, TensorType

__all__ = ["by_axis", "known_axes", "over_axes"]

_MOST = 64  # choices: branches in each other

Make = Callable[[Expr, tuple[int, ...]], Expr]


def known_axes(b: Emitter, axes: Expr) -> tuple[int, ...] | None:
    """The axes that a tensor lists; None where the data decides them, or how many there are."""
    count = b.product(b.dims_of(axes))
    if count is const(0):
        return ()
    known = b.known_dims(axes) or ()
    found = tuple(int(d.value) for d in known if isinstance(d, Const))
    return found if len(found) == len(known) and known else None


def by_axis(b: Emitter, rank: int, axes: Expr, *rows: Expr) -> tuple[Expr, ...]:
    """Numbers (int64[rank]) for each axis of a tensor of `rank`: 1 where the vector `axes` lists it, else 0; and for
    each of `rows`, which have a number for every listed axis, that number, else 0. Axes that there are not, or twice,
    end a call."""
    hit, listed = _listed(b, rank, axes)
    spread = (b.sum(b.where(hit, b.to(row, dt.int64), b.constant(0, dt.int64)), axis=(1,)) for row in rows)
    _require_axes(b, b.product(b.dims_of(axes)), listed, b.constant(True, dt.bool_))
    return listed, *spread


def _listed(b: Emitter, rank: int, axes: Expr) -> tuple[Expr, Expr]:
    """Whether each axis (a row) is each of those listed (columns), and, as int64, whether it is one of them."""
    given = b.reshape(b.to(axes, dt.int64), newshape=(b.product(b.dims_of(axes)),), allowzero=True)
    given = b.where(b.less(given, b.constant(0, dt.int64)), b.add(given, b.constant(rank, dt.int64)), given)
    hit = b.equal(b.constant(np.arange(rank).reshape(rank, 1)), given)
    return hit, b.cast(b.any(hit, axis=(1,)), dtype=dt.int64)


def _require_axes(b: Emitter, count: Dim, listed: Expr, is_possible: Expr) -> None:
    """Requires `count` axes to be listed, and something besides."""
    number = b.where(is_possible, b.sum(listed, axis=(0,)), b.constant(-1, dt.int64))
    surplus = b.dim(b.add(number, b.constant(1, dt.int64)), "axes") - 1
    b.require_least(surplus, count, "the axes are some that there are")


def over_axes(b: Emitter, x: Expr, axes: Expr, make: Make, *, rank: int = 0) -> Expr:
    """What `make` gives for `x` and the axes that the tensor `axes` lists, of a tensor of `rank` (0: that of `x`).

    Known axes are given as they are; others counted from the front and ascending. What `make` demands of the extents of
    `x` is demanded of those axes only. Axes that there are not, or twice, end a call.
    """
    known, rank = known_axes(b, axes), rank or b.rank(x)
    if known is not None:
        return make(x, known)
    count = b.product(b.dims_of(axes))
    choices = [c for c in _choices(b, rank, count, axes) if _is_possible(b, x, c, make)]
    if not choices:
        raise UnsupportedError(f"no axes of {x.ty} can be meant")
    branches = _branches(b, x, choices, make)
    if len({b.rank(branch) for branch in branches}) > 1:
        message = f"the rank of the result depends on how many axes there are, {count}"
        raise UnsupportedError(message, hint=b.way_out(count, 1))
    _, listed = _listed(b, rank, axes)
    masks = np.array([[int(axis in c) for axis in range(rank)] for c in choices], np.int64).reshape(len(choices), rank)
    flags = b.all(b.equal(listed, b.constant(masks)), axis=(1,))
    _require_axes(b, count, listed, b.any(flags, axis=(0,)))
    *others, result = branches
    for n, branch in reversed(list(enumerate(others))):
        result = b.if_(b.take(flags, b.constant(n, dt.int64), axis=0, mode="fast"), branch, result)
    return result


def _choices(b: Emitter, rank: int, count: Dim, axes: Expr) -> Iterator[tuple[int, ...]]:
    """All that `count` axes of a tensor may be; UnsupportedError where they are too many."""
    numbers = [int(count.value)] if isinstance(count, Const) else range(rank + 1)
    ways = sum(comb(rank, number) for number in numbers)
    if not 0 < ways <= _MOST:
        raise UnsupportedError(
            f"the data decides the axes, {axes.ty}, of a tensor of rank {rank}: {ways or 'no'} choices",
            hint=b.way_to_know(axes),
        )
    return (c for number in numbers for c in combinations(range(rank), number))


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


def _branches(b: Emitter, x: Expr, choices: Sequence[tuple[int, ...]], make: Make) -> list[Expr]:
    """What `make` gives for each choice, all of one type if they have one rank: extents that differ are dims of their
    own."""
    made = []
    for choice in choices:
        with b.bindings() as bound:
            made.append((bound, make(b.let("x", _opened(b, x, b.dims_of(x))), choice)))
    types = [b.type_of(value) for _, value in made]
    differ = [len({ty.shape[d] for ty in types if ty.rank > d}) > 1 for d in range(types[0].rank)]
    return [lets(bound, _opened(b, value, [d for d, other in zip(b.dims_of(value), differ, strict=False) if other]))
            for bound, value in made]  # fmt: skip


def _opened(b: Emitter, x: Expr, dims: Sequence[Dim]) -> Expr:
    """`x` with new dims in the place of `dims`."""
    shape = tuple(fresh("d", 0) if d in dims else d for d in b.dims_of(x))
    return b.match_cast(x, TensorType(shape, b.dtype(x)))
