"""Rows of a table by number: embedding, and embedding_bag, which reduces the rows of each bag."""

from __future__ import annotations

import math
import operator

import numpy as np

from legato.base.dtype import bool_, int64
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr

_SUM, _MEAN, _MAX = range(3)


@aten("embedding")
def embedding(
    b: Emitter,
    weight: Expr,
    indices: Expr,
    padding_idx: Size = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Expr:
    """The other parameters are for gradients."""
    return b.take(weight, indices, axis=0, mode="fast")


@aten("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    b: Emitter,
    weight: Expr,
    indices: Expr,
    offsets: Expr,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Expr | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Expr | None, ...]:
    """Bag n has the rows from offset n up to the next; row `padding_idx` counts in none."""
    _require_unused(b)
    count = b.dims_of(offsets)[0] - int(include_last_offset)
    bag = b.searchsorted(offsets, b.steps(0, b.dims_of(indices)[0]), right=True, dtype=int64)
    bag = b.subtract(bag, b.index(1))
    if padding_idx >= 0:
        is_padding = b.equal(b.to(indices, int64), b.index(padding_idx))
        bag = b.where(is_padding, b.extent(count, int64), bag)  # no bag
    at = b.expand_dims(bag, axis=0)
    rows = b.wide(b.take(weight, indices, axis=0, mode="fast"))
    if per_sample_weights is not None:
        rows = b.multiply(rows, b.expand_dims(b.to(per_sample_weights, b.dtype(rows)), axis=1))
    shape, dtype = (count, b.dims_of(weight)[1]), b.dtype(rows)
    start = b.constant(np.array(-np.inf if mode == _MAX else 0), dtype)
    found = b.scatter_nd(b.broadcast(start, shape), at, rows, mode="max" if mode == _MAX else "add")
    if mode != _SUM:
        ones = b.broadcast(b.index(1), b.dims_of(bag))
        sizes = b.expand_dims(b.scatter_nd(b.zeros_of((count,), int64), at, ones, mode="add"), axis=1)
        if mode == _MEAN:
            found = b.divide(found, b.to(b.maximum(sizes, b.index(1)), dtype))
        else:
            found = b.where(b.equal(sizes, b.index(0)), b.number(0, dtype), found)
    return b.to(found, b.dtype(weight)), None, None, None


def _require_unused(b: Emitter) -> None:
    """What only gradients need is not computed."""
    users = () if b.node is None else tuple(b.node.users)
    if any(user.target is not operator.getitem or (user.args[1] != 0 and user.users) for user in users):
        raise UnsupportedError("more than the first result of an embedding bag", hint="its gradients are not compiled")


@aten("embedding_renorm")
def embedding_renorm(b: Emitter, self: Expr, indices: Expr, max_norm: float, norm_type: float) -> Expr:
    """The table with the rows that are read scaled to a norm of `max_norm` where theirs is larger."""
    x, flat = b.wide(self), b.flat(indices)
    dtype, rows = b.dtype(x), b.dims_of(x)[0]
    size = b.abs(x)
    if norm_type == math.inf:
        norm = b.max(size, axis=(1,), keepdims=True)
    else:
        powers = b.power(size, b.number(norm_type, dtype))
        norm = b.power(b.sum(powers, axis=(1,), keepdims=True), b.number(1 / norm_type, dtype))
    none = b.zeros_of((rows,), bool_)
    ones = b.broadcast(b.number(True, bool_), b.dims_of(flat))
    is_read = b.expand_dims(b.scatter_elements(none, flat, ones, axis=0), axis=1)
    limit = b.number(max_norm, dtype)
    scale = b.divide(limit, b.add(norm, b.number(1e-7, dtype)))
    is_long = b.logical_and(is_read, b.greater(norm, limit))
    return b.to(b.where(is_long, b.multiply(x, scale), x), b.dtype(self))
