"""Masks of attention in ONNX Runtime's own domain, as numbers that are added to scores.

What is masked gets a number that is low, but not -∞ (`mask_filter_value`): a row of which all is masked attends to all.
"""

from __future__ import annotations

import numpy as np

from legato.arith.expr import const
from legato.arith.prove import provably_different, prove_equal
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr
from legato.ir.types import Dim

__all__ = ["Sizes", "masked"]

_LOWEST = float(np.finfo(np.float32).min)  # scores are of float32 or wider


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of scores: rows of the batch, queries, keys, and how many of the keys are from before the queries."""

    batch: Dim
    queries: Dim
    keys: Dim
    past: Dim


def masked(
    b: Emitter, scores: Expr, mask: Expr | None, added: Expr | None, sizes: Sizes, *, fill: float, causal: bool
) -> Expr:
    """Scores [batch, heads, queries, keys] and `added`; what is masked is lowered by `fill`, what comes later to the
    lowest number."""
    bias = None if added is None else b.to(added, b.dtype(scores))
    if mask is not None:
        low = b.where(_kept(b, mask, sizes), b.like(0, scores), b.like(fill, scores))
        bias = low if bias is None else b.add(low, bias)
    scores = scores if bias is None else b.add(scores, bias)
    if not causal:
        return scores
    row = b.expand_dims(b.arange(start=const(0), stop=sizes.queries, step=1, dtype=dt.int64), axis=1)
    row = b.add(row, b.extent(sizes.past, dt.int64))
    seen = b.less_equal(_keys(b, sizes), row)
    return b.where(seen, scores, b.like(_LOWEST, scores))


def _keys(b: Emitter, sizes: Sizes) -> Expr:
    return b.arange(start=const(0), stop=sizes.keys, step=1, dtype=dt.int64)


def _kept(b: Emitter, mask: Expr, sizes: Sizes) -> Expr:
    """Which keys are not masked, to be broadcast to the scores."""
    rank = b.rank(mask)
    if rank == 1:
        return _inside(b, mask, sizes)
    if rank == 2:
        _require(b, mask, (sizes.batch, sizes.keys))
        mask = b.expand_dims(mask, axis=1, num_newaxis=2)
    elif rank == 3:
        _require(b, mask, (sizes.batch, sizes.queries, sizes.keys))
        mask = b.expand_dims(mask, axis=1)
    elif rank == 4:
        end = simplify(sizes.past + sizes.queries)
        mask = b.strided_slice(mask, begin=(sizes.past, 0), end=(end, sizes.keys), strides=(1, 1), axes=(2, 3))
    else:
        raise ImportModelError(f"a mask {mask.ty}, wanted one of rank 1 to 4")
    return mask if b.dtype(mask).is_bool else b.greater(mask, b.like(0, mask))


def _require(b: Emitter, mask: Expr, wanted: tuple[Dim, ...]) -> None:
    for own, d in zip(b.dims_of(mask), wanted, strict=True):
        if provably_different(own, d):
            raise ImportModelError(f"a mask {mask.ty}, wanted one of shape ({', '.join(map(str, wanted))})")
        b.require(own, d, "an extent of the mask")


def _inside(b: Emitter, mask: Expr, sizes: Sizes) -> Expr:
    """Which keys are before the end that `mask` has for each row, and not before the begin if there is one, too."""
    (own,), batch = b.dims_of(mask), sizes.batch
    forms = (batch, simplify(batch * 2), simplify(batch * 3 + 2))
    form = next((n for n, d in enumerate(forms) if prove_equal(own, d)), None)
    if form is None:
        if all(provably_different(own, d) for d in forms):
            raise ImportModelError(f"a mask {mask.ty} for a batch of {batch}")
        raise UnsupportedError(f"whether a mask {mask.ty} has one, two or three numbers for each row of {batch}",
                               hint=b.way_out(own, 1))  # fmt: skip
    keys = _keys(b, sizes)
    end = b.to(b.strided_slice(mask, begin=(0,), end=(batch,), strides=(1,), axes=(0,)), dt.int64)
    kept = b.less(keys, b.expand_dims(end, axis=1, num_newaxis=3))
    if form != 1:
        return kept
    begin = b.to(b.strided_slice(mask, begin=(batch,), end=(own,), strides=(1,), axes=(0,)), dt.int64)
    return b.logical_and(kept, b.greater_equal(keys, b.expand_dims(begin, axis=1, num_newaxis=3)))
