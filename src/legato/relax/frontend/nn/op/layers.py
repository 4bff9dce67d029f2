"""Operators of layers: products, convolutions, normalisations, attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from typing import Any

from legato.base.errors import TypeCheckError, UnsupportedError
from legato.relax.frontend.nn.op import elementwise as el
from legato.relax.frontend.nn.op import shapes
from legato.relax.frontend.nn.scope import as_shape
from legato.relax.frontend.nn.tensor import Tensor, emit

__all__ = ["conv1d", "conv1d_transpose", "conv2d", "conv2d_transpose", "conv3d", "get_timestep_embedding",
           "group_norm", "interpolate", "layer_norm", "matmul", "prelu", "rms_norm", "scaled_dot_product_attention",
           "softmax"]  # fmt: skip

Sizes = int | Sequence[int]


def matmul(a: Tensor, b: Tensor, out_dtype: str | None = None, name: str = "matmul") -> Tensor:
    """a·b, of matrices, or of as many as the axes in front tell."""
    return emit("matmul", name, a, b, out_dtype)


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """eˣ / Σ eˣ along an axis."""
    return emit("nn.softmax", name, x, axis)


def prelu(x: Tensor, alpha: Tensor, name: str = "prelu") -> Tensor:
    """x, times alpha of its channel (axis 1) where it is below 0."""
    return emit("nn.prelu", name, x, alpha)


# ---------------------------------------------------------------------- convolutions


def conv1d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: int = 1, name: str = "conv1d",
) -> Tensor:  # fmt: skip
    """A convolution of (batch, channels, width)."""
    return _conv(1, "NCW", x, weight, bias, stride, padding, dilation, groups, name)


def conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: int = 1, data_layout: str = "NCHW", name: str = "conv2d",
) -> Tensor:  # fmt: skip
    """A convolution of images in `data_layout`; the weight is (out, in / groups, height, width)."""
    return _conv(2, data_layout, x, weight, bias, stride, padding, dilation, groups, name)


def conv3d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0,
    dilation: Sizes = 1, groups: int = 1, data_layout: str = "NCDHW", name: str = "conv3d",
) -> Tensor:  # fmt: skip
    """A convolution of volumes in `data_layout`; the weight is (out, in / groups, depth, height, width)."""
    return _conv(3, data_layout, x, weight, bias, stride, padding, dilation, groups, name)


def conv1d_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1, name: str = "conv1d_transpose",
) -> Tensor:  # fmt: skip
    """The transpose of a convolution, of (batch, channels, width); the weight is (in, out / groups, width)."""
    return _transposed(1, x, weight, bias, stride, padding, output_padding, dilation, groups, name)


def conv2d_transpose(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0,
    output_padding: Sizes = 0, dilation: Sizes = 1, groups: int = 1, name: str = "conv2d_transpose",
) -> Tensor:  # fmt: skip
    """The transpose of a convolution of (batch, channels, height, width)."""
    return _transposed(2, x, weight, bias, stride, padding, output_padding, dilation, groups, name)


def _conv(
    dims: int, layout: str, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes | str,
    dilation: Sizes, groups: int, name: str,
) -> Tensor:  # fmt: skip
    pads = _padding(padding, weight, dims, stride, dilation) if isinstance(padding, str) else padding
    found: Tensor = emit(
        f"nn.conv{dims}d", name, x, weight, strides=stride, padding=pads, dilation=dilation, groups=groups,
        data_layout=layout,
    )  # fmt: skip
    return found if bias is None else el.add(found, _beside(bias, dims, layout.index("C")))


def _padding(mode: str, weight: Tensor, dims: int, stride: Sizes, dilation: Sizes) -> list[int]:
    """What "valid" and "same" mean, in front of each axis and then behind. TypeCheckError for other names."""
    if mode == "valid":
        return [0] * 2 * dims
    window = weight.shape[-dims:]
    if mode != "same" or any(s != 1 for s in _each(stride, dims)) or not all(isinstance(k, int) for k in window):
        raise TypeCheckError(f"a convolution with padding={mode!r}, and stride {stride}",
                             hint='numbers; "valid"; of stride 1 and known extents, "same"')  # fmt: skip
    total = [(k - 1) * d for k, d in zip(window, _each(dilation, dims), strict=True)]
    return [t // 2 for t in total] + [t - t // 2 for t in total]


def _each(given: Any, dims: int) -> list[Any]:
    """One number for each of `dims` axes. TypeCheckError where there are more, or less."""
    found = list(given) if isinstance(given, list | tuple) else [given] * dims
    if len(found) != dims:
        raise TypeCheckError(f"{found} for {dims} axes")
    return found


def _transposed(
    dims: int, x: Tensor, weight: Tensor, bias: Tensor | None, stride: Sizes, padding: Sizes, output_padding: Sizes,
    dilation: Sizes, groups: int, name: str,
) -> Tensor:  # fmt: skip
    found: Tensor = emit(
        f"nn.conv{dims}d_transpose", name, x, weight, strides=stride, padding=padding, output_padding=output_padding,
        dilation=dilation, groups=groups,
    )  # fmt: skip
    return found if bias is None else el.add(found, _beside(bias, dims, 1))


def _beside(bias: Tensor, dims: int, axis: int) -> Tensor:
    """A bias of channels, which are `axis` of an image."""
    shape = [1] * (dims + 2)
    return shapes.reshape(bias, [*shape[:axis], bias.shape[0], *shape[axis + 1 :]])


# ---------------------------------------------------------------------- normalisations


def layer_norm(
    x: Tensor, normalized_shape: Sizes, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:  # fmt: skip
    """(x − mean) / √(variance + eps) over the last axes, which are of `normalized_shape`, times weight, plus bias."""
    extents = as_shape(normalized_shape if isinstance(normalized_shape, list | tuple) else [normalized_shape])
    if x.shape[-len(extents) :] != extents:
        raise TypeCheckError(f"layer_norm over {extents}, of a tensor of shape {x.shape}")
    gamma = shapes.ones(extents, x.dtype) if weight is None else weight
    beta = shapes.zeros(extents, x.dtype) if bias is None else bias
    axes = list(range(-len(extents), 0))
    return emit("nn.layer_norm", name, x, gamma, beta, axes, eps)


def rms_norm(x: Tensor, weight: Tensor, axes: Sizes, epsilon: float = 1e-5, name: str = "rms_norm") -> Tensor:
    """x / √(mean of x² + epsilon) over the last axes, times weight."""
    return emit("nn.rms_norm", name, x, weight, axes, epsilon)


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | None, eps: float = 1e-5, channel_axis: int = 1,
    axes: Sequence[int] | None = None, name: str = "group_norm",
) -> Tensor:  # fmt: skip
    """As a layer_norm of each group of channels and all axes but the first and the channels, times weight, plus bias.

    UnsupportedError for other axes.
    """
    channel = channel_axis % x.ndim
    rest = [a for a in range(1, x.ndim) if a != channel]
    if axes is not None and sorted(a % x.ndim for a in axes) != rest:
        raise UnsupportedError(f"group_norm over axes {list(axes)} of {x.ndim}", hint=f"over {rest}, and the channels")
    gamma = shapes.ones([x.shape[channel]], x.dtype) if weight is None else weight
    beta = shapes.zeros([x.shape[channel]], x.dtype) if bias is None else bias
    return emit("nn.group_norm", name, x, gamma, beta, num_groups, channel, rest, eps)


# ---------------------------------------------------------------------- attention


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, is_causal: bool | None = False,
    scale: float | None = None, name: str = "scaled_dot_product_attention",
) -> Tensor:  # fmt: skip
    """softmax(q·kᵀ·scale + mask)·v, of (batch, positions, heads, width).

    attn_mask: what is added to (batch, heads, positions, positions of keys), or, of bool, what is looked at.
    is_causal: position i looks at positions up to i. scale: 1/√width where it is None.
    """
    mask = attn_mask
    if mask is not None and mask.dtype == "bool":
        mask = _unseen(mask, query.dtype)
    if is_causal:
        later = _unseen(_up_to(query.shape[1], key.shape[1]), query.dtype)
        mask = later if mask is None else el.add(mask, later)
    if scale is None and isinstance(query.shape[-1], int):
        scale = 1 / sqrt(query.shape[-1])
    return emit("nn.attention", name, query, key, value, bias=mask, scale=scale)


def _up_to(rows: Any, columns: Any) -> Tensor:
    """Of (rows, columns): whether a column is not behind the row."""
    i, j = (shapes.arange(n, dtype="int64") for n in (rows, columns))
    return el.less_equal(shapes.unsqueeze(j, 0), shapes.unsqueeze(i, 1))


def _unseen(seen: Tensor, dtype: str) -> Tensor:
    """0 where `seen` holds, −∞ else."""
    return el.where(seen, Tensor.from_scalar(0.0, dtype), Tensor.from_scalar(float("-inf"), dtype))


def get_timestep_embedding(
    x: Tensor, embedding_dim: int, flip_sin_to_cos: bool = False, downscale_freq_shift: float = 1, scale: float = 1,
    max_period: int = 10000, name: str = "get_timestep_embedding",
) -> Tensor:  # fmt: skip
    """Sines, then cosines, of each number of x at embedding_dim // 2 frequencies from 1 to 1/max_period: of rank 2.

    flip_sin_to_cos: cosines first. A zero stands behind where `embedding_dim` is odd.
    """
    if x.ndim != 1:
        raise TypeCheckError(f"get_timestep_embedding of {x!r}, wanted a tensor of rank 1")
    half = embedding_dim // 2
    if half <= downscale_freq_shift:
        raise TypeCheckError(f"get_timestep_embedding of {embedding_dim} numbers, shifted by {downscale_freq_shift}")
    steps = shapes.arange(0, half, dtype="float32") * (-log(max_period) / (half - downscale_freq_shift))
    angles = shapes.unsqueeze(el.astype(x, "float32"), 1) * shapes.unsqueeze(el.exp(steps), 0) * scale
    both = [el.sin(angles), el.cos(angles)]
    found = shapes.concat(both[::-1] if flip_sin_to_cos else both, -1)
    found = shapes.pad(found, [0, 0, 0, 1]) if embedding_dim % 2 else found
    return el.astype(found, x.dtype if x.dtype.startswith("float") else "float32", name)


_WAYS = {"nearest": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}


def interpolate(
    x: Tensor, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool | None = None,
    data_layout: str = "NCHW", name: str = "interpolate",
) -> Tensor:  # fmt: skip
    """Images of another size, as torch's function of this name makes them: `size`, or `scale_factor` of known extents.

    mode: "nearest", "bilinear", "bicubic". UnsupportedError for `antialias`, and for factors of unknown extents.
    """
    if mode not in _WAYS or x.ndim != 4:
        raise UnsupportedError(f"interpolate of {x!r} with mode={mode!r}", hint=f"{', '.join(_WAYS)}; of rank 4")
    if antialias or recompute_scale_factor:
        raise UnsupportedError("interpolate with antialias or recompute_scale_factor", hint="leave them out")
    if (size is None) == (scale_factor is None):
        raise TypeCheckError("interpolate takes size, or scale_factor")
    corners = "align_corners" if align_corners else "half_pixel"
    return emit(
        "image.resize2d", name, x, _size(x, size, scale_factor, data_layout), layout=data_layout, method=_WAYS[mode],
        coordinate_transformation_mode="asymmetric" if mode == "nearest" else corners,
        rounding_method="floor" if mode == "nearest" else "", cubic_alpha=-0.75,
    )  # fmt: skip


def _size(x: Tensor, size: Sizes | None, factor: float | Sequence[float] | None, layout: str) -> tuple[Any, ...]:
    if size is not None:
        return tuple(as_shape(_each(size, 2)))
    extents = [x.shape[layout.index(c)] for c in "HW"]
    if not all(isinstance(e, int) for e in extents):
        raise UnsupportedError(
            f"interpolate with a scale_factor, of {x!r}", hint="size=…, of which extents may be dims"
        )
    return tuple(int(e * f) for e, f in zip(extents, _each(factor, 2), strict=True))
