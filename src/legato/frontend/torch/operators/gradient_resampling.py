"""Backward operators of resizing: the transposes of what the forward operators do."""

from __future__ import annotations

from collections.abc import Sequence

from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.operators._nearest import nearest
from legato.frontend.torch.operators._transposed import transposed
from legato.frontend.torch.operators.resampling import Scales, between
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr

Sizes = Sequence[Size]


def _of_nearest(b: Emitter, dy: Expr, sizes: Sizes, shape: Sizes, scales: Scales, exact: bool) -> Expr:
    data = b.zeros_of(b.sizes_of(shape), b.dtype(dy))
    return transposed(b, lambda x: nearest(b, x, b.sizes_of(sizes), scales, exact), data, dy)


def _of_between(
    b: Emitter, dy: Expr, sizes: Sizes, shape: Sizes, scales: Scales, align_corners: bool, method: str = "linear"
) -> Expr:
    data = b.zeros_of(b.sizes_of(shape), b.dtype(dy))
    return transposed(b, lambda x: between(b, x, b.sizes_of(sizes), scales, align_corners, method), data, dy)


@aten("upsample_nearest1d_backward")
def upsample_nearest1d_backward(
    b: Emitter, grad_output: Expr, output_size: Sizes, input_size: Sizes, scales: float | None = None
) -> Expr:
    return _of_nearest(b, grad_output, output_size, input_size, (scales,), False)


@aten("upsample_nearest2d_backward")
def upsample_nearest2d_backward(
    b: Emitter,
    grad_output: Expr,
    output_size: Sizes,
    input_size: Sizes,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:
    return _of_nearest(b, grad_output, output_size, input_size, (scales_h, scales_w), False)


@aten("upsample_nearest3d_backward")
def upsample_nearest3d_backward(
    b: Emitter,
    grad_output: Expr,
    output_size: Sizes,
    input_size: Sizes,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:
    return _of_nearest(b, grad_output, output_size, input_size, (scales_d, scales_h, scales_w), False)


@aten("_upsample_nearest_exact1d_backward")
def upsample_nearest_exact1d_backward(
    b: Emitter, grad_output: Expr, output_size: Sizes, input_size: Sizes, scales: float | None = None
) -> Expr:
    return _of_nearest(b, grad_output, output_size, input_size, (scales,), True)


@aten("_upsample_nearest_exact2d_backward")
def upsample_nearest_exact2d_backward(
    b: Emitter,
    grad_output: Expr,
    output_size: Sizes,
    input_size: Sizes,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:
    return _of_nearest(b, grad_output, output_size, input_size, (scales_h, scales_w), True)


@aten("_upsample_nearest_exact3d_backward")
def upsample_nearest_exact3d_backward(
    b: Emitter,
    grad_output: Expr,
    output_size: Sizes,
    input_size: Sizes,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:
    return _of_nearest(b, grad_output, output_size, input_size, (scales_d, scales_h, scales_w), True)


@aten("upsample_linear1d_backward")
def upsample_linear1d_backward(
    b: Emitter,
    grad_output: Expr,
    output_size: Sizes,
    input_size: Sizes,
    align_corners: bool,
    scales: float | None = None,
) -> Expr:
    return _of_between(b, grad_output, output_size, input_size, (scales,), align_corners)


@aten("upsample_bilinear2d_backward")
def upsample_bilinear2d_backward(
    b: Emitter,
    grad_output: Expr,
    output_size: Sizes,
    input_size: Sizes,
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:
    return _of_between(b, grad_output, output_size, input_size, (scales_h, scales_w), align_corners)


@aten("upsample_trilinear3d_backward")
def upsample_trilinear3d_backward(
    b: Emitter,
    grad_output: Expr,
    output_size: Sizes,
    input_size: Sizes,
    align_corners: bool,
    scales_d: float | None = None,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:
    return _of_between(b, grad_output, output_size, input_size, (scales_d, scales_h, scales_w), align_corners)


@aten("upsample_bicubic2d_backward")
def upsample_bicubic2d_backward(
    b: Emitter,
    grad_output: Expr,
    output_size: Sizes,
    input_size: Sizes,
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Expr:
    return _of_between(b, grad_output, output_size, input_size, (scales_h, scales_w), align_corners, "cubic")
