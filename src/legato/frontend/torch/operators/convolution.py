"""Convolutions in one to three dimensions, and transposed ones."""

from __future__ import annotations

from collections.abc import Sequence

from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.operators._windows import numbers
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("convolution")
def convolution(
    b: Emitter, input: Expr, weight: Expr, bias: Expr | None, stride: Sequence[Size], padding: Sequence[Size],
    dilation: Sequence[Size], transposed: bool, output_padding: Sequence[Size], groups: Size,
) -> Expr:  # fmt: skip
    """Channels come second; the weight of a transposed one begins with the channels of the input."""
    y = convolved(b, input, weight, stride, padding, dilation, transposed, output_padding, groups,
                  b.sum_dtype(input, bias is not None))  # fmt: skip
    return y if bias is None else b.to(b.nn.bias_add(y, b.to(bias, b.dtype(y)), axis=1), b.dtype(input))


@aten("_convolution.default")
def convolution_by_cudnn(
    b: Emitter, input: Expr, weight: Expr, bias: Expr | None, stride: Sequence[Size], padding: Sequence[Size],
    dilation: Sequence[Size], transposed: bool, output_padding: Sequence[Size], groups: Size, benchmark: bool,
    deterministic: bool, cudnn_enabled: bool, allow_tf32: bool,
) -> Expr:  # fmt: skip
    return convolution(b, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)


def convolved(
    b: Emitter, x: Expr, weight: Expr, stride: Sequence[Size], padding: Sequence[Size], dilation: Sequence[Size],
    transposed: bool, output_padding: Sequence[Size], groups: Size, out_dtype: object,
) -> Expr:  # fmt: skip
    """The convolution without a bias, formed in `out_dtype`."""
    rank = b.rank(x) - 2
    if rank not in (1, 2, 3):
        raise UnsupportedError(f"a convolution in {rank} dimensions; 1 to 3 are possible")
    attrs = {
        "strides": numbers(b, stride, rank, "stride"), "padding": numbers(b, padding, rank, "padding"),
        "dilation": numbers(b, dilation, rank, "dilation"), "groups": b.literal(groups, "groups"),
        "out_dtype": out_dtype,
    }  # fmt: skip
    if not transposed:
        return b.call(f"nn.conv{rank}d", x, weight, **attrs)
    extra = numbers(b, output_padding, rank, "output_padding")
    return b.call(f"nn.conv{rank}d_transpose", x, weight, output_padding=extra, **attrs)
