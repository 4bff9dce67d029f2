"""Deformable convolution."""

from __future__ import annotations

from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr


def deform_conv(
    b: Emitter,
    x: Expr,
    weight: Expr,
    offset: Expr,
    bias: Expr | None = None,
    mask: Expr | None = None,
    *,
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    offset_group: int = 1,
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    """Places outside of the image are interpolated with zeros. As in ONNX's reference, images have two dims."""
    if b.rank(x) != 4:
        raise UnsupportedError(f"a deformable convolution of {x.ty}, of {b.rank(x) - 2} spatial dims: 2 are possible")
    if b.rank(weight) != 4 or b.rank(offset) != 4 or (mask is not None and b.rank(mask) != 4):
        raise ImportModelError(f"a weight {weight.ty} and offsets {offset.ty}, wanted rank 4")
    if kernel_shape:
        if len(kernel_shape) != 2:
            raise ImportModelError(f"kernel_shape is {list(kernel_shape)}, wanted 2 integers")
        weight = b.agreed(weight, (None, None, *kernel_shape), "the weight")
    attrs = {"strides": strides or (1, 1), "padding": pads or (0, 0, 0, 0), "dilation": dilations or (1, 1),
             "groups": group, "deformable_groups": offset_group, "partial": True}  # fmt: skip
    wide = [b.wide(v) for v in (x, offset, *(() if mask is None else (mask,)), weight)]
    name = "nn.deformable_conv2d" if mask is None else "nn.modulated_deformable_conv2d"
    y = b.call(name, *wide, **attrs)
    return b.to(y if bias is None else b.nn.bias_add(y, b.to(bias, b.dtype(y)), axis=1), b.dtype(x))
