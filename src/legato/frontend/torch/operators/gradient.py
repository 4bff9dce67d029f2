"""Backward operators of layers, as AOTAutograd makes them: compositions of the gradients of Legato's operators."""

from __future__ import annotations

from collections.abc import Sequence

from legato.base.dtype import int64
from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.operators._transposed import by_rule, transposed
from legato.frontend.torch.operators.convolution import convolved
from legato.frontend.torch.operators.pooling import adaptive_avg_pool2d, adaptive_avg_pool3d, avg_pool2d, avg_pool3d
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr

Sizes = Sequence[Size]


@aten("convolution_backward")
def convolution_backward(
    b: Emitter, grad_output: Expr, input: Expr, weight: Expr, bias_sizes: Sizes | None, stride: Sizes, padding: Sizes,
    dilation: Sizes, transposed: bool, output_padding: Sizes, groups: Size, output_mask: Sequence[bool],
) -> tuple[Expr | None, ...]:  # fmt: skip
    """The gradients of the input, the weight and the bias, those that `output_mask` asks for."""
    y = convolved(b, input, weight, stride, padding, dilation, transposed, output_padding, groups, "")
    found: list[Expr | None] = [None, None]
    if any(output_mask[:2]):
        found = [*by_rule(b, y, grad_output)]
    axes = tuple(n for n in range(b.rank(grad_output)) if n != 1)
    bias = b.to(b.sum(b.wide(grad_output), axis=axes), b.dtype(grad_output))
    return tuple(g if wanted else None for g, wanted in zip((*found, bias), output_mask, strict=True))


# ------------------------------------------------------------------ pools


@aten("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(
    b: Emitter, grad_output: Expr, self: Expr, kernel_size: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes,
    ceil_mode: bool, indices: Expr,
) -> Expr:  # fmt: skip
    return _to_places(b, grad_output, self, indices, len(kernel_size))


@aten("adaptive_max_pool2d_backward")
def adaptive_max_pool2d_backward(b: Emitter, grad_output: Expr, self: Expr, indices: Expr) -> Expr:
    return _to_places(b, grad_output, self, indices, 2)


@aten("adaptive_max_pool3d_backward")
def adaptive_max_pool3d_backward(b: Emitter, grad_output: Expr, self: Expr, indices: Expr) -> Expr:
    return _to_places(b, grad_output, self, indices, 3)


def _to_places(b: Emitter, grad: Expr, x: Expr, indices: Expr, rank: int) -> Expr:
    """Zeros like `x` with each element of `grad` added at its place in the plane of its channel."""
    dims, outs = b.dims_of(x), b.dims_of(grad)
    flat = (*outs[:-rank], b.product(outs[-rank:]))
    dy, places = (b.reshape(t, newshape=flat, allowzero=True) for t in (grad, indices))
    found = b.gather_grad(dy, places, axis=len(flat) - 1, shape=(*dims[:-rank], b.product(dims[-rank:])))
    return b.reshape(found, newshape=dims, allowzero=True)


@aten("avg_pool2d_backward")
def avg_pool2d_backward(
    b: Emitter, grad_output: Expr, self: Expr, kernel_size: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool,
    count_include_pad: bool, divisor_override: Size | None,
) -> Expr:  # fmt: skip
    how = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return transposed(b, lambda x: avg_pool2d(b, x, *how), self, grad_output)


@aten("avg_pool3d_backward")
def avg_pool3d_backward(
    b: Emitter, grad_output: Expr, self: Expr, kernel_size: Sizes, stride: Sizes, padding: Sizes, ceil_mode: bool,
    count_include_pad: bool, divisor_override: Size | None,
) -> Expr:  # fmt: skip
    how = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return transposed(b, lambda x: avg_pool3d(b, x, *how), self, grad_output)


@aten("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(b: Emitter, grad_output: Expr, self: Expr) -> Expr:
    sizes = b.dims_of(grad_output)[-2:]
    return transposed(b, lambda x: adaptive_avg_pool2d(b, x, sizes), self, grad_output)


@aten("_adaptive_avg_pool3d_backward")
def adaptive_avg_pool3d_backward(b: Emitter, grad_output: Expr, self: Expr) -> Expr:
    sizes = b.dims_of(grad_output)[-3:]
    return transposed(b, lambda x: adaptive_avg_pool3d(b, x, sizes), self, grad_output)


# ------------------------------------------------------------------ rows of a table


@aten("embedding_dense_backward")
def embedding_dense_backward(
    b: Emitter, grad_output: Expr, indices: Expr, num_weights: Size, padding_idx: Size, scale_grad_by_freq: bool
) -> Expr:
    """Zeros with each row of the gradient added where its index says, but not at `padding_idx`; if asked for, divided
    by how often the index occurs."""
    count, dtype, rank = b.size(num_weights), b.dtype(grad_output), b.rank(indices)
    dy, at = b.wide(grad_output), b.to(indices, int64)
    if scale_grad_by_freq:
        ones = b.zeros_of(b.dims_of(at), b.dtype(dy), 1)
        times = b.take(b.take_grad(ones, at, axis=0, shape=(count,)), at, axis=0)
        dy = b.divide(dy, b.expand_dims(times, axis=rank))
    padded = b.equal(b.expand_dims(at, axis=rank), b.operand(padding_idx, int64))
    dy = b.where(padded, b.like(0, dy), dy)
    return b.to(b.take_grad(dy, at, axis=0, shape=(count, b.dim_of(dy, -1))), dtype)
