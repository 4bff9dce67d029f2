"""Rows of different lengths in one tensor: sequence_mask, reverse_sequence.

Both are made of other operators (`expand`). An axis counts the steps, another the rows, each with a length of its own;
one below 0 counts as 0, one above the number of steps as that.
"""

from __future__ import annotations

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Type
from legato.ops._dtypes import convert
from legato.ops._families import Array
from legato.ops._gradients import dtype_of, extent_of, shape_of
from legato.ops._rules import INT, NUMBER, normalize_axis, require_dtype, require_rank, tensor

__all__ = ["ReverseSequenceAttrs", "SequenceMaskAttrs", "reverse_sequence", "sequence_mask"]


@dataclass(frozen=True, slots=True)
class SequenceMaskAttrs(Attrs):
    """`mask_value`: what stands behind the end of a row; `axis`: that of the steps, 0 or 1. The other is the rows'."""

    mask_value: float = 0.0
    axis: int = 0


@dataclass(frozen=True, slots=True)
class ReverseSequenceAttrs(Attrs):
    """`seq_axis`: that of the steps; `batch_axis`: that of the rows."""

    seq_axis: int = 1
    batch_axis: int = 0


def _across(b: Builder, x: Expr, axis: int, rank: int) -> Expr:
    """A vector along `axis` of a tensor of `rank` dims, with extent 1 along the others."""
    if axis:
        x = b.expand_dims(x, axis=0, num_newaxis=axis)
    return b.expand_dims(x, axis=axis + 1, num_newaxis=rank - axis - 1) if rank > axis + 1 else x


def _steps(b: Builder, x: Expr, axis: int) -> Expr:
    """The number of each step."""
    steps = b.arange(start=0, stop=shape_of(x)[axis], step=1, dtype=dt.int64)
    return _across(b, steps, axis, len(shape_of(x)))


def _along(x: Array, axis: int, rank: int) -> Array:
    return x.reshape([-1 if n == axis else 1 for n in range(rank)])


# ------------------------------------------------------------------------------- sequence_mask


def _mask_relation(rel: Relation, data: Type, valid_length: Type, a: SequenceMaskAttrs) -> Type:
    x, lengths = tensor(rel, data, "data"), tensor(rel, valid_length, "valid_length")
    require_dtype(rel, x, NUMBER, "data")
    require_dtype(rel, lengths, NUMBER, "valid_length")
    require_rank(rel, lengths, 1, what="valid_length")
    if x.rank < 2 or a.axis not in (0, 1):
        raise rel.fail(f"axis {a.axis} of data of rank {x.rank}, wanted 0 or 1, of rank 2 or more")
    rel.same(lengths.shape[0], x.shape[1 - a.axis], "a length for each row")
    return x


def _mask_reference(data: Array, valid_length: Array, a: SequenceMaskAttrs) -> Array:
    steps = np.arange(data.shape[a.axis], dtype=np.int64 if valid_length.dtype.kind in "iu" else np.float64)
    kept = _along(steps, a.axis, data.ndim) < _along(valid_length, 1 - a.axis, data.ndim).astype(steps.dtype)
    return np.asarray(np.where(kept, data, convert(np.asarray(a.mask_value), dt.dtype(data.dtype))))


def _mask_expand(b: Builder, data: Expr, valid_length: Expr, a: SequenceMaskAttrs) -> Expr:
    wide = dt.int64 if dtype_of(valid_length).is_int else dt.float64
    lengths = b.cast(_across(b, valid_length, 1 - a.axis, len(shape_of(data))), dtype=wide)
    steps = b.cast(_steps(b, data, a.axis), dtype=wide)
    return b.where(b.less(steps, lengths), data, _filling(b, a.mask_value, dtype_of(data)))


def _filling(b: Builder, value: float, dtype: dt.DType) -> Expr:
    return b.constant(convert(np.asarray(value), dtype), dtype)


sequence_mask = Op(
    name="sequence_mask",
    args=("data", "valid_length"),
    attrs=SequenceMaskAttrs,
    type_rel=_mask_relation,
    reference=_mask_reference,
    expand=_mask_expand,
    samples=(
        Sample((((4, 3, 2), "float32"), np.array([2, 0, 9], np.int32)), exact=True),
        Sample((((2, 5), "float32"), np.array([3, -1], np.int64)), {"axis": 1, "mask_value": -7.5}, exact=True),
        Sample((((2, 5), "int8"), np.array([2.5, 1.0], np.float32)), {"axis": 1, "mask_value": 3.0}, exact=True),
        Sample((((0, 2, 3), "float32"), np.array([1, 2], np.int32)), exact=True),
    ),
    doc="`data` with `mask_value` in each row behind as many steps as its length says.",
)

# ------------------------------------------------------------------------------- reverse_sequence


def _reverse_relation(rel: Relation, data: Type, seq_lengths: Type, a: ReverseSequenceAttrs) -> Type:
    x, lengths = tensor(rel, data, "data"), tensor(rel, seq_lengths, "seq_lengths")
    require_dtype(rel, lengths, INT, "seq_lengths")
    require_rank(rel, lengths, 1, what="seq_lengths")
    steps, rows = (normalize_axis(rel, n, x.rank) for n in (a.seq_axis, a.batch_axis))
    if steps == rows:
        raise rel.fail(f"seq_axis and batch_axis are both axis {steps}")
    rel.same(lengths.shape[0], x.shape[rows], "a length for each row")
    return x


def _reverse_reference(data: Array, seq_lengths: Array, a: ReverseSequenceAttrs) -> Array:
    steps, rows = a.seq_axis % data.ndim, a.batch_axis % data.ndim
    found = data.copy()
    wanted, given = (np.moveaxis(x, (rows, steps), (0, 1)) for x in (found, data))
    for n, length in enumerate(np.clip(seq_lengths.astype(np.int64), 0, data.shape[steps])):
        wanted[n, :length] = given[n, :length][::-1]
    return found


def _reverse_expand(b: Builder, data: Expr, seq_lengths: Expr, a: ReverseSequenceAttrs) -> Expr:
    rank = len(shape_of(data))
    first = (a.batch_axis % rank, a.seq_axis % rank)
    order = (*first, *(n for n in range(rank) if n not in first))
    rows = b.transpose(data, axes=order)
    lengths = b.minimum(b.cast(seq_lengths, dtype=dt.int64), extent_of(b, rows, 1))
    own = b.expand_dims(lengths, axis=1)
    step = b.arange(start=0, stop=shape_of(rows)[1], step=1, dtype=dt.int64)
    mirrored = b.subtract(b.subtract(own, b.constant(1, dt.int64)), step)
    places = b.where(b.less(step, own), mirrored, step)
    found = b.take(rows, places, axis=1, batch_dims=1)
    return b.transpose(found, axes=tuple(map(order.index, range(rank))))


reverse_sequence = Op(
    name="reverse_sequence",
    args=("data", "seq_lengths"),
    attrs=ReverseSequenceAttrs,
    type_rel=_reverse_relation,
    reference=_reverse_reference,
    expand=_reverse_expand,
    storage=True,
    samples=(
        Sample((((3, 4), "float32"), np.array([2, 4, 0], np.int32)), exact=True),
        Sample((((4, 2, 3), "float32"), np.array([9, 2, -1], np.int64)), {"seq_axis": 0, "batch_axis": -1}, exact=True),
        Sample((((2, 3, 0), "int8"), np.array([3, 1], np.int64)), exact=True),
        Sample((((2, 0), "float32"), np.array([3, 1], np.int64)), exact=True),
    ),
    doc="The first steps of each row in reverse, as many as its length says; the others stay.",
)
