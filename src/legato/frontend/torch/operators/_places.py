"""Subscripts of several axes as PyTorch gives them: tensors of integers, masks, None."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.base.dtype import bool_, int64, uint8
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter
from legato.ir.expr import Expr

__all__ = ["adjacent", "places"]


def places(b: Emitter, x: Expr, indices: Sequence[Expr | None]) -> Mapping[int, Expr]:
    """The subscripts of each axis that has some. A mask says them of as many axes as it has."""
    found: dict[int, Expr] = {}
    axis = 0
    for index in indices:
        if index is None:
            axis += 1
        elif b.dtype(index) in (bool_, uint8):
            for column in _of_mask(b, x, axis, index):
                found[axis] = column
                axis += 1
        else:
            found[axis] = index
            axis += 1
    return found


def _of_mask(b: Emitter, x: Expr, axis: int, mask: Expr) -> list[Expr]:
    rank = b.rank(mask)
    if not rank:
        raise UnsupportedError("a mask of rank 0 among the subscripts", hint="give it one dim")
    for n, d in enumerate(b.dims_of(mask)):
        b.require(d, b.dims_of(x)[axis + n], f"dim {n} of a mask")
    rows = b.let("found", b.argwhere(mask, dtype=int64))
    if rank == 1:
        return [b.squeeze(rows, axis=(1,))]
    return [b.take(rows, b.index(n), axis=1) for n in range(rank)]


def adjacent(axes: Sequence[int]) -> bool:
    """Whether axes stand side by side."""
    return list(axes) == list(range(axes[0], axes[0] + len(axes)))
