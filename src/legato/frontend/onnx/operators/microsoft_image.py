"""Convolutions, pooling and cuttings of images of ONNX Runtime's own domain."""

from __future__ import annotations

from collections.abc import Callable

from legato.arith.expr import const
from legato.arith.simplify import simplify
from legato.base.errors import ImportModelError
from legato.frontend.dims import channels_first, channels_last
from legato.frontend.onnx.activated import activated
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import nn, sampling
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"


def fused_conv(
    b: Emitter,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    added: Expr | None = None,
    *,
    activation: str = "",
    activation_params: tuple[float, ...] = (),
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    wide = [None if v is None else b.wide(v) for v in (bias, added)]
    y = nn.conv(b, b.wide(x), b.wide(weight), wide[0], auto_pad=auto_pad, dilations=dilations, group=group,
                kernel_shape=kernel_shape, pads=pads, strides=strides)  # fmt: skip
    y = y if wide[1] is None else b.add(y, wide[1])
    return b.to(activated(b, y, activation, activation_params), b.dtype(x))


def _in_channels_first(b: Emitter, x: Expr, make: Callable[[Expr], Expr]) -> Expr:
    """What `make` gives for an image whose channels are its last dim; so are those of the result."""
    return channels_last(b, make(channels_first(b, x)))


def nhwc_conv(
    b: Emitter,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    return nhwc_fused_conv(b, x, weight, bias, auto_pad=auto_pad, dilations=dilations, group=group,
                           kernel_shape=kernel_shape, pads=pads, strides=strides)  # fmt: skip


def nhwc_fused_conv(
    b: Emitter,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    added: Expr | None = None,
    *,
    activation: str = "",
    activation_params: tuple[float, ...] = (),
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    """A convolution of channels last, by a weight of channels first."""
    first = None if added is None else channels_first(b, added)

    def convolved(x: Expr) -> Expr:
        return fused_conv(b, x, weight, bias, first, activation=activation, activation_params=activation_params,
                          auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
                          strides=strides)  # fmt: skip

    return _in_channels_first(b, x, convolved)


def nhwc_max_pool(
    b: Emitter,
    x: Expr,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
    dilations: tuple[int, ...] = (),
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    def pooled(x: Expr) -> Expr:
        return nn.max_pool(b, x, auto_pad=auto_pad, ceil_mode=ceil_mode, dilations=dilations,
                           kernel_shape=kernel_shape, pads=pads, strides=strides)[0]  # fmt: skip

    return _in_channels_first(b, x, pooled)


def conv_transpose_with_dynamic_pads(
    b: Emitter,
    x: Expr,
    weight: Expr,
    pads: Expr | None = None,
    bias: Expr | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    output_padding: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    """The padding is cut off what is made without it."""
    y = nn.conv_transpose(b, x, weight, bias, auto_pad=auto_pad, dilations=dilations, group=group,
                          kernel_shape=kernel_shape, output_padding=output_padding, strides=strides)  # fmt: skip
    rank = b.rank(x) - 2
    if pads is None:
        return y
    cut = b.dims(b.counted(pads, const(2 * rank), "pads"), "pads")
    if len(cut) != 2 * rank:
        raise ImportModelError(f"{len(cut)} pads of {rank} spatial dims, wanted two of each")
    ends = [simplify(d - after) for d, after in zip(b.dims_of(y)[2:], cut[rank:], strict=True)]
    for first, end in zip(cut[:rank], ends, strict=True):
        b.require_least(simplify(end - first), const(0), "the extent that padding leaves")
    return b.strided_slice(y, begin=cut[:rank], end=tuple(ends), strides=(1,) * rank, axes=tuple(range(2, rank + 2)))


def grid_sample(
    b: Emitter,
    x: Expr,
    grid: Expr,
    *,
    align_corners: bool = False,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Expr:
    return sampling.grid_sample(b, x, grid, align_corners=align_corners, mode=mode, padding_mode=padding_mode)


def crop_and_resize(
    b: Emitter,
    x: Expr,
    boxes: Expr,
    batch_indices: Expr,
    crop_size: Expr,
    *,
    extrapolation_value: float = 0.0,
    mode: str = "bilinear",
) -> Expr:
    """Boxes [y1, x1, y2, x2] of images [n, channels, height, width], from 0 to 1 between the middles of the first and
    last elements, each resized to `crop_size`; outside of the image all is `extrapolation_value`."""
    if mode not in ("bilinear", "nearest"):
        raise ImportModelError(f"mode is {mode!r}, wanted bilinear or nearest")
    if b.rank(x) != 4 or b.rank(boxes) != 2:
        raise ImportModelError(f"boxes {boxes.ty} of images {x.ty}")
    size = b.dims(b.counted(crop_size, const(2), "extents of a crop"), "extents of a crop")
    if len(size) != 2:
        raise ImportModelError(f"{len(size)} extents of a crop, wanted two")
    b.require(b.dims_of(boxes)[1], const(4), "numbers of a box")
    b.require(b.dims_of(boxes)[0], b.dims_of_rank(batch_indices, 1, "images of boxes")[0], "boxes")
    wide = b.wide(x)
    y = b.image.crop_and_resize(wide, b.to(boxes, b.dtype(wide)), batch_indices, crop_size=size,
                                method="bilinear" if mode == "bilinear" else "nearest_neighbor",
                                extrapolation_value=extrapolation_value)  # fmt: skip
    return b.to(y, b.dtype(x))
