"""Reading at places that data gives: index, index_select, gather, take, masked_select, nonzero.

A subscript outside of its dim is an error in PyTorch; here one is clamped where it is read, and dropped where it is
written. Below 0 it counts from the end.
"""

from __future__ import annotations

from legato.base.dtype import bool_, int64
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.operators._places import adjacent, places
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(b: Emitter, self: Expr, indices: tuple[Expr | None, ...]) -> Expr:
    """As NumPy reads: tensors of subscripts broadcast; what they read stands where they stand, or first where they do
    not stand side by side."""
    at = places(b, self, indices)
    axes = list(at)
    if not axes:
        return self
    if len(axes) == 1:
        return b.take(self, at[axes[0]], axis=axes[0], mode="fast")
    others = [n for n in range(b.rank(self)) if n not in at]
    first = b.permuted(self, [*axes, *others])
    found = b.adv_index(first, *(at[n] for n in axes))
    new = b.rank(found) - len(others)
    if not adjacent(axes) or axes[0] == 0:
        return found
    before = axes[0]
    order = [*range(new, new + before), *range(new), *range(new + before, b.rank(found))]
    return b.permuted(found, order)


@aten("index_select")
def index_select(b: Emitter, self: Expr, dim: int, index: Expr) -> Expr:
    axis = b.axis_of(dim, b.rank(self))
    if not b.rank(self):
        return self
    return b.take(self, b.vector(index), axis=axis, mode="fast")


@aten("gather")
def gather(b: Emitter, self: Expr, dim: int, index: Expr, *, sparse_grad: bool = False) -> Expr:
    data, at = b.vector(self), b.vector(index)
    if b.rank(data) != b.rank(at):  # only where there are no subscripts
        return b.zeros_of(b.dims_of(index), b.dtype(self))
    return b.in_shape(b.gather(data, at, axis=b.axis_of(dim, b.rank(self))), b.dims_of(index))


@aten("take")
def take(b: Emitter, self: Expr, index: Expr) -> Expr:
    return b.take(b.flat(self), index, axis=0, mode="fast")


# ------------------------------------------------------------------ where the data decides how many


@aten("nonzero")
def nonzero(b: Emitter, self: Expr) -> Expr:
    return b.let("found", b.argwhere(self, dtype=int64))


@aten("nonzero_static")
def nonzero_static(b: Emitter, self: Expr, *, size: Size, fill_value: int = -1) -> Expr:
    """The first `size` rows of `nonzero`, filled up with rows of `fill_value`."""
    rows, count = (b.get(b.call("argwhere_padded", self, dtype="int64"), n) for n in range(2))
    at = b.expand_dims(b.steps(0, size), axis=1)
    found = b.take(rows, b.steps(0, size), axis=0)
    return b.where(b.less(at, count), found, b.index(fill_value))


@aten("masked_select")
def masked_select(b: Emitter, self: Expr, mask: Expr) -> Expr:
    shape = b.dims_of(b.logical_or(mask, b.zeros_of(b.dims_of(self), bool_)))
    whole, kept = b.broadcast(self, shape), b.broadcast(mask, shape)
    found = b.let("found", b.argwhere(b.flat(kept), dtype=int64))
    return b.take(b.flat(whole), b.squeeze(found, axis=(1,)), axis=0)
