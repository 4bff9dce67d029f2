"""Relax's operators that select elements, made of several of the language's: `SELECTIONS`, by the name behind `R.`

R.index_put(x, (i, j), v)         scatter_nd(x, stack(i, j), v)
R.slice_scatter(x, v, 1, 9, 2)    scatter_nd(x, [0, 1, …][1:9:2], v)
R.median(x, 0)                    the element of the sorted rows that half of the others are not above
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from legato.base.dtype import dtype as as_dtype
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.ir.expr import Expr, constant
from legato.ir.tensor_to_shape import TENSOR_TO_SHAPE
from legato.script.modules.compositions import broadcast_indices, numbers, parts_of, places, tensor_type

__all__ = ["SELECTIONS"]

_INT64: Final = as_dtype("int64")


def _axis(axis: Any, rank: int, what: str) -> int:
    """An axis counted from 0."""
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise TypeCheckError(f"{what}: axis {axis} of a tensor of rank {rank}")
    return axis % rank


def _moved(b: Builder, x: Any, rank: int, source: int, target: int) -> Expr:
    """`x` with one axis at another place."""
    order = [n for n in range(rank) if n != source]
    order.insert(target, source)
    return b.call("transpose", x, axes=tuple(order))


# ---------------------------------------------------------------------- stores at places


def _index_put(b: Builder, data: Any, indices: Any, values: Any, accumulate: bool = False) -> Expr:
    """`data` with `values` at the places that index tensors, which are broadcast, give."""
    at = broadcast_indices(b, indices, "index_put")
    rank, given = tensor_type(data, "the operand of index_put").rank, tensor_type(at, "the indices of index_put")
    count = len(parts_of(indices))
    if count > rank:
        raise TypeCheckError(f"{count} index tensors for a tensor of rank {rank}")
    shape = (*given.shape[1:], *tensor_type(data, "the operand of index_put").shape[count:])
    wide = b.call("broadcast_to", values, shape=shape)
    return b.call("scatter_nd", data, at, wide, mode="add" if accumulate else "update")


def _slice_scatter(b: Builder, input_tensor: Any, src: Any, start: Any, end: Any, step: Any, axis: int = 0) -> Expr:
    """A tensor with `src` where its slice [start:end:step] along an axis is."""
    ty = tensor_type(input_tensor, "the operand of slice_scatter")
    at = _axis(axis, ty.rank, "slice_scatter")
    every = places(b, ty.shape[at])
    rows = b.call("strided_slice", every, begin=(start,), end=(end,), strides=(step,), axes=(0,))
    data, values = (_moved(b, x, ty.rank, at, 0) for x in (input_tensor, src))
    stored = b.call("scatter_nd", data, b.call("expand_dims", rows, axis=0), values, mode="update")
    return _moved(b, stored, ty.rank, 0, at)


# ---------------------------------------------------------------------- elements of places


def _dynamic_slice(b: Builder, x: Any, begin: Any, end: Any, strides: Any) -> Expr:
    return b.call("dyn.strided_slice", x, begin, end, strides)


def _reverse_sequence(b: Builder, data: Any, seq_lengths: Any, seq_axis: int = 1, batch_axis: int = 0) -> Expr:
    """`data` with the first `seq_lengths[i]` elements along an axis in reverse order, in row i of another axis."""
    ty = tensor_type(data, "the operand of reverse_sequence")
    along, row = _axis(seq_axis, ty.rank, "reverse_sequence"), _axis(batch_axis, ty.rank, "reverse_sequence")
    if along == row:
        raise TypeCheckError(f"reverse_sequence: the sequences and the batch have the same axis, {seq_axis}")
    place = _on_axis(b, places(b, ty.shape[along]), ty.rank, along)
    length = _on_axis(b, b.call("cast", seq_lengths, dtype=_INT64), ty.rank, row)
    mirrored = b.call("subtract", b.call("subtract", length, place), constant(1, _INT64))
    chosen = b.call("where", b.call("less", place, length), mirrored, place)
    return b.call("gather", data, b.call("broadcast_to", chosen, shape=ty.shape), axis=along)


def _on_axis(b: Builder, vector: Expr, rank: int, axis: int) -> Expr:
    """A vector as a tensor of a rank, whose other extents are 1."""
    front = b.call("expand_dims", vector, axis=0, num_newaxis=axis) if axis else vector
    behind = rank - 1 - axis
    return b.call("expand_dims", front, axis=axis + 1, num_newaxis=behind) if behind else front


def _unique(
    b: Builder, x: Any, sorted: bool = True, return_index: bool = False, return_inverse: bool = False,
    return_counts: bool = False, axis: Any = None,
) -> Expr:  # fmt: skip
    """The different elements, and where asked the first place, the number and the count of each, of int64."""
    rank = tensor_type(x, "the operand of unique").rank
    if axis is not None and rank != 1:
        hint = "of all elements, or a vector"
        raise UnsupportedError(f"unique along axis {axis} of a tensor of rank {rank}", hint=hint)
    flat = x if rank == 1 else b.call("reshape", x, newshape=(-1,))
    made = b.call("unique", flat, sorted=bool(sorted), return_counts=bool(return_counts))
    asked = [n for n, wanted in ((1, return_index), (2, return_inverse), (4, return_counts)) if wanted]
    found = [b.get(made, 0), *(b.call("cast", b.get(made, n), dtype=_INT64) for n in asked)]
    return b.tuple_(found) if asked else found[0]


def _median(b: Builder, x: Any, axis: Any = None, keepdims: bool = False) -> Expr:
    """The lower of the two elements in the middle; along one axis also where it is (int64)."""
    ty = tensor_type(x, "the operand of median")
    axes = axis if isinstance(axis, tuple | list) else [axis]
    if len(axes) != 1:
        raise UnsupportedError(f"median over the axes {axis}", hint="over one, or all")
    (single,) = axes
    rows = b.call("reshape", x, newshape=(-1,)) if single is None else x
    at = 0 if single is None else _axis(single, ty.rank, "median")
    extent = tensor_type(rows, "the operand of median").shape[at]
    order = b.call("argsort", rows, axis=at, dtype=_INT64)
    half = (extent - 1) // 2
    place = b.call("strided_slice", order, begin=(half,), end=(half + 1,), axes=(at,))
    value = b.call("gather", rows, place, axis=at)
    if single is None:
        return b.call("reshape", value, newshape=(1,) * ty.rank if keepdims else ())
    found = [value, place] if keepdims else [b.call("squeeze", v, axis=(at,)) for v in (value, place)]
    return b.tuple_(found)


# ---------------------------------------------------------------------- shapes and boxes


def _shape_to_tensor(b: Builder, expr: Any) -> Expr:
    """The dims of a shape as a vector of int64."""
    dims = numbers(expr)
    if not isinstance(dims, tuple):
        raise TypeCheckError("shape_to_tensor is of a shape whose dims are known", hint="R.match_cast tells them")
    sized = b.call("broadcast_to", constant(0, _INT64), shape=dims)  # only its shape is asked for
    return b.call("shape_of", sized, dtype=_INT64)


def _tensor_to_shape(b: Builder, expr: Any) -> Expr:
    """The shape whose dims a vector of int64 holds: `R.match_cast` gives them names."""
    return b.call(TENSOR_TO_SHAPE, expr)


def _non_max_suppression(
    b: Builder, boxes: Any, scores: Any, max_output_boxes_per_class: Any, iou_threshold: Any, score_threshold: Any,
    output_format: str = "onnx",
) -> Expr:  # fmt: skip
    limits = (max_output_boxes_per_class, iou_threshold, score_threshold)
    return b.call("vision.all_class_non_max_suppression", boxes, scores, *limits, output_format=output_format)


SELECTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "index_put": _index_put, "slice_scatter": _slice_scatter, "dynamic_strided_slice": _dynamic_slice,
    "reverse_sequence": _reverse_sequence, "unique": _unique, "median": _median, "shape_to_tensor": _shape_to_tensor,
    "tensor_to_shape": _tensor_to_shape,
    "vision.all_class_non_max_suppression": _non_max_suppression,
}  # fmt: skip
