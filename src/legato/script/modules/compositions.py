"""Relax's operators that are made of several of the language's: `COMPOSITIONS`, by the name behind `R.`

R.square(x)                       multiply(x, x)
R.gather_nd(x, k)                 gather_nd(x, transpose(k)): the language has subscripts along the first dimension
R.quantize(x, scale, zero)        cast(clip(round(x / scale) + zero))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import log
from typing import Any, Final

from legato.base.dtype import DType
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.ir.expr import Expr, Shape, constant
from legato.ir.types import ShapeType, TensorType

__all__ = ["COMPOSITIONS", "broadcast_indices", "numbers", "parts_of", "places", "tensor_type"]

_KNOWN: Final = (
    'annotate what it comes from, a parameter or a result: R.Tensor(("n", 4), "float32"), '
    'or R.Tensor(ndim=2, dtype="float32")'
)


def numbers(given: Any) -> Any:
    """Integers and dims of a shape or of a list."""
    if isinstance(given, Shape):
        return given.dims
    if isinstance(given, Expr) and isinstance(given.ty, ShapeType) and given.ty.dims is not None:
        return given.ty.dims
    return tuple(given) if isinstance(given, tuple | list) else given


def parts_of(tensors: Any) -> list[Any]:
    """What a tuple holds: an expression, or a sequence of a script."""
    return list(tensors.fields if hasattr(tensors, "fields") else tensors)


def tensor_type(x: Any, what: str) -> TensorType:
    """The type of a tensor that a composition must know."""
    ty = x.ty if isinstance(x, Expr) else None
    if not isinstance(ty, TensorType):
        raise TypeCheckError(f"{what} is not known to be a tensor of some rank here", hint=_KNOWN)
    return ty


def places(b: Builder, extent: Any) -> Expr:
    """0, 1, … below an extent, of int64."""
    return b.call("arange", start=0, stop=extent, step=1, dtype=as_dtype("int64"))


def _square(b: Builder, x: Any) -> Expr:
    return b.call("multiply", x, x)


def _fma(b: Builder, x1: Any, x2: Any, x3: Any) -> Expr:
    return b.call("add", b.call("multiply", x1, x2), x3)


def _log_add_exp(b: Builder, x1: Any, x2: Any) -> Expr:
    """log(eˣ + eʸ), also of infinities: for equal operands the difference is not taken."""
    most, least = b.call("maximum", x1, x2), b.call("minimum", x1, x2)
    beyond = b.call("log", b.call("add", b.call("exp", b.call("subtract", least, most)), 1.0))
    return b.call("where", b.call("equal", x1, x2), b.call("add", x1, log(2)), b.call("add", most, beyond))


def _outer(b: Builder, x1: Any, x2: Any) -> Expr:
    if any(tensor_type(x, "an operand of outer").rank != 1 for x in (x1, x2)):
        raise TypeCheckError("outer is of two vectors")
    return b.call("multiply", b.call("expand_dims", x1, axis=1), b.call("expand_dims", x2, axis=0))


def _size(b: Builder, x: Any) -> Expr:
    return b.call("ndarray_size", x, dtype=as_dtype("int64"))


# ---------------------------------------------------------------------- creation


def _diagonal(b: Builder, rows: Any, columns: Any, k: Any, dtype: Any) -> Expr:
    down, along = (places(b, n) for n in (rows, columns))
    gap = b.call("subtract", b.call("expand_dims", along, axis=0), b.call("expand_dims", down, axis=1))
    return b.call("cast", b.call("equal", gap, constant(int(k), as_dtype("int64"))), dtype=as_dtype(dtype))


def _eye(b: Builder, n: Any, m: Any = None, k: Any = 0, dtype: Any = "float32") -> Expr:
    return _diagonal(b, n, n if m is None else m, k, dtype)


def _eye_like(b: Builder, x: Any, k: Any = 0, dtype: Any = None) -> Expr:
    ty = tensor_type(x, "the operand of eye_like")
    if ty.rank != 2:
        raise TypeCheckError(f"eye_like of a tensor of rank {ty.rank}, wanted 2")
    rows, columns = ty.shape
    return _diagonal(b, rows, columns, k, dtype or ty.dtype)


def _full_like(b: Builder, x: Any, fill_value: Any, dtype: Any = None) -> Expr:
    kind = as_dtype(dtype) if dtype else tensor_type(x, "the operand of full_like").dtype
    value = fill_value if isinstance(fill_value, Expr) else constant(fill_value, kind)
    like = b.call("cast", x, dtype=kind) if dtype else x
    return b.call("full_like", like, b.call("cast", value, dtype=kind))


def _meshgrid(b: Builder, tensors: Any, indexing: str | None = "ij") -> Expr:
    parts = parts_of(tensors)
    types = [tensor_type(x, "an operand of meshgrid") for x in parts]
    if any(ty.rank != 1 for ty in types) or indexing not in (None, "ij", "xy"):
        raise TypeCheckError('meshgrid is of vectors, with indexing="ij" or "xy"')
    order = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        order[:2] = 1, 0
    shape = tuple(types[n].shape[0] for n in order)
    made = []
    for n, x in enumerate(parts):
        at = order.index(n)
        behind = len(parts) - at - 1
        wide = b.call("expand_dims", x, axis=1, num_newaxis=behind) if behind else x
        made.append(b.call("broadcast_to", wide, shape=shape))
    return b.tuple_(made)


# ---------------------------------------------------------------------- indexing


def _first(b: Builder, indices: Any) -> Expr:
    """Indices whose subscripts are along the last dimension, with these along the first."""
    rank = tensor_type(indices, "the operand `indices`").rank
    if not rank:
        raise TypeCheckError("indices of rank 0: their last dimension has the subscripts of an element")
    return b.call("transpose", indices, axes=(rank - 1, *range(rank - 1)))


def _gather_nd(b: Builder, data: Any, indices: Any, batch_dims: int = 0) -> Expr:
    return b.call("gather_nd", data, _first(b, indices), batch_dims=batch_dims)


def _scatter_nd(b: Builder, data: Any, indices: Any, updates: Any, reduction: str = "update") -> Expr:
    return b.call("scatter_nd", data, _first(b, indices), updates, mode=reduction)


def _scatter_elements(
    b: Builder, data: Any, indices: Any, updates: Any, axis: int = 0, reduction: str = "update"
) -> Expr:
    return b.call("scatter_elements", data, indices, updates, axis=axis, reduction=reduction)


def broadcast_indices(b: Builder, indices: Any, name: str) -> Expr:
    """Index tensors, which are broadcast, as one of int64 whose first dimension they are along."""
    wide = [b.call("cast", i, dtype=as_dtype("int64")) for i in parts_of(indices)]
    if not wide:
        raise TypeCheckError(f"{name} takes at least one index tensor")
    zero = constant(0, as_dtype("int64"))
    nothing = reduce(lambda x, y: b.call("add", x, y), [b.call("multiply", i, zero) for i in wide])
    return b.call("stack", *(b.call("add", i, nothing) for i in wide), axis=0)


def _index_tensor(b: Builder, data: Any, indices: Any) -> Expr:
    """data[i0, i1, …] of index tensors, which are broadcast."""
    return b.call("gather_nd", data, broadcast_indices(b, indices, "index_tensor"))


def _nonzero(b: Builder, x: Any) -> Expr:
    return b.call("transpose", b.call("argwhere", x, dtype=as_dtype("int64")))


def _bucketize(b: Builder, input_tensor: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Expr:
    """How many of the ascending boundaries are less than each element, or at most as large."""
    rank = tensor_type(input_tensor, "the operand of bucketize").rank
    element = b.call("expand_dims", input_tensor, axis=rank)
    below = b.call("less_equal" if right else "less", boundaries, element)
    return b.call("sum", b.call("cast", below, dtype=as_dtype("int32" if out_int32 else "int64")), axis=(rank,))


def _collapse_sum_to(b: Builder, data: Any, shape: Any) -> Expr:
    """The sum over what broadcasting to the shape of `data` has repeated."""
    return b.call("collapse_sum_to", data, shape=numbers(shape))


def _collapse_sum_like(b: Builder, data: Any, collapse_target: Any) -> Expr:
    return _collapse_sum_to(b, data, tensor_type(collapse_target, "the target of collapse_sum_like").shape)


# ---------------------------------------------------------------------- quantisation


def _along(b: Builder, parameter: Any, rank: int, axis: int) -> Expr:
    """A parameter of quantisation, with its elements along `axis`."""
    ty = tensor_type(parameter, "a scale or zero point")
    behind = rank - 1 - axis % rank if rank else 0
    if ty.rank > 1:
        raise TypeCheckError(f"a scale or zero point of rank {ty.rank}, wanted 0 or 1")
    return b.call("expand_dims", parameter, axis=1, num_newaxis=behind) if ty.rank == 1 and behind else parameter


def _limits(dtype: DType) -> tuple[float, float]:
    if not dtype.is_int:
        raise UnsupportedError(f"quantisation to {dtype}", hint="to an integer")
    return float(dtype.min or 0), float(dtype.max or 0)


def _quantize(b: Builder, data: Any, scale: Any, zero_point: Any, axis: int = -1, out_dtype: Any = "int8") -> Expr:
    ty, dtype = tensor_type(data, "the operand of quantize"), as_dtype(out_dtype)
    least, most = _limits(dtype)
    zero = b.call("cast", _along(b, zero_point, ty.rank, axis), dtype=ty.dtype)
    rounded = b.call("round", b.call("divide", data, _along(b, scale, ty.rank, axis)))
    return b.call("cast", b.call("clip", b.call("add", rounded, zero), a_min=least, a_max=most), dtype=dtype)


def _dequantize(b: Builder, data: Any, scale: Any, zero_point: Any, axis: int = -1, out_dtype: Any = "float32") -> Expr:
    ty = tensor_type(data, "the operand of dequantize")
    if out_dtype != "float32":
        raise UnsupportedError(f"dequantize to {out_dtype}", hint="to float32, and R.astype behind it")
    kind = as_dtype("float32" if ty.dtype.is_float else "int32")
    zero = b.call("cast", _along(b, zero_point, ty.rank, axis), dtype=kind)
    gap = b.call("cast", b.call("subtract", b.call("cast", data, dtype=kind), zero), dtype=as_dtype("float32"))
    return b.call("multiply", gap, b.call("cast", _along(b, scale, ty.rank, axis), dtype=as_dtype("float32")))


# ---------------------------------------------------------------------- images and networks


def _resize(dims: int) -> Callable[..., Expr]:
    letters = "DHW"[3 - dims :]

    def rule(
        b: Builder, data: Any, size: Any, roi: Any = None, layout: str = f"NC{letters}", method: str = "linear",
        coordinate_transformation_mode: str = "half_pixel", rounding_method: str = "round",
        cubic_alpha: float = -0.75, cubic_exclude: int = 0, extrapolation_value: float = 0.0, out_dtype: Any = None,
    ) -> Expr:  # fmt: skip
        extents = numbers(size) if isinstance(size, Expr | Sequence) else (size,)
        return b.call(
            f"image.resize{dims}d", data, size=extents * dims if len(extents) == 1 else extents,
            roi=() if roi is None else tuple(roi), layout=layout, method=method,
            coordinate_transformation_mode=coordinate_transformation_mode, rounding_method=rounding_method,
            cubic_alpha=cubic_alpha, cubic_exclude=cubic_exclude, extrapolation_value=extrapolation_value,
            out_dtype=out_dtype or "",
        )  # fmt: skip

    return rule


def _relu6(b: Builder, data: Any) -> Expr:
    return b.call("clip", data, a_min=0.0, a_max=6.0)


def _instance_norm(
    b: Builder, data: Any, gamma: Any, beta: Any, channel_axis: int, axes: Any, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True,
) -> Expr:  # fmt: skip
    _require_rest(data, channel_axis, axes, "instance_norm")
    return b.call("nn.instance_norm", data, gamma, beta, axis=channel_axis, epsilon=epsilon, center=center, scale=scale)


def _group_norm(
    b: Builder, data: Any, gamma: Any, beta: Any, num_groups: int, channel_axis: int, axes: Any, epsilon: float = 1e-5,
    center: bool = True, scale: bool = True,
) -> Expr:  # fmt: skip
    _require_rest(data, channel_axis, axes, "group_norm")
    return b.call(
        "nn.group_norm", data, gamma, beta, num_groups=num_groups, axis=channel_axis, epsilon=epsilon, center=center,
        scale=scale,
    )  # fmt: skip


def _require_rest(data: Any, channel: int, axes: Any, name: str) -> None:
    """`axes` are all but the first and that of the channels, which an empty list stands for."""
    if isinstance(axes, Sequence) and not axes:
        return
    rank = tensor_type(data, f"the operand of {name}").rank
    given = {a % rank for a in (axes if isinstance(axes, Sequence) else [axes])}
    if given != set(range(1, rank)) - {channel % rank}:
        raise UnsupportedError(f"{name} over axes {axes}", hint="over all but the first and that of the channels")


def _cross_entropy(b: Builder, predictions: Any, labels: Any) -> Expr:
    """-Σ predictions · labels, divided by the number of rows where there are rows."""
    total = b.call("negative", b.call("sum", b.call("multiply", predictions, labels)))
    ty = tensor_type(predictions, "the operand of cross_entropy_with_logits")
    if ty.rank < 2:
        return total
    rows = b.call("take", b.call("shape_of", predictions, dtype=as_dtype("int64")), constant(0, as_dtype("int64")))
    return b.call("divide", total, b.call("cast", rows, dtype=ty.dtype))


def _nll_loss(
    b: Builder, predictions: Any, targets: Any, weights: Any = None, reduction: str = "mean", ignore_index: int = -100
) -> Expr:
    """The operator's, with weights of 1 where there are none."""
    ty = tensor_type(predictions, "the predictions of nll_loss")
    if ty.rank < 2 or reduction not in ("none", "sum", "mean"):
        raise UnsupportedError(
            f"nll_loss of predictions {ty}, with the reduction {reduction!r}",
            hint="predictions (n, classes, …), and a reduction none, sum or mean",
        )
    if weights is None:
        weights = b.call("ones", shape=(ty.shape[1],), dtype=ty.dtype)
    return b.call("nn.nll_loss", predictions, targets, weights, reduction=reduction, ignore_index=ignore_index)


COMPOSITIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "square": _square, "ewise_fma": _fma, "log_add_exp": _log_add_exp, "outer": _outer, "size": _size, "eye": _eye,
    "eye_like": _eye_like, "full_like": _full_like, "meshgrid": _meshgrid, "gather_nd": _gather_nd,
    "scatter_nd": _scatter_nd, "scatter_elements": _scatter_elements, "index_tensor": _index_tensor,
    "nonzero": _nonzero, "bucketize": _bucketize, "collapse_sum_to": _collapse_sum_to,
    "collapse_sum_like": _collapse_sum_like, "quantize": _quantize, "dequantize": _dequantize,
    **{f"image.resize{d}d": _resize(d) for d in (1, 2, 3)},
    "nn.relu6": _relu6, "nn.instance_norm": _instance_norm, "nn.group_norm": _group_norm,
    "nn.cross_entropy_with_logits": _cross_entropy, "nn.nll_loss": _nll_loss,
    "nn.batch_flatten": lambda b, data: b.call("nn.batch_flatten", data),
    "nn.pixel_shuffle": lambda b, data, upscale_factor: b.call(
        "nn.depth_to_space", data, block_size=upscale_factor, mode="CRD"
    ),
}  # fmt: skip
