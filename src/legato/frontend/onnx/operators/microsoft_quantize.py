"""Quantised operators of ONNX Runtime's own domain: elementwise ones, pooling, softmax, concatenation.

Where no operator on codes computes as ONNX Runtime does, codes become numbers, and the results codes again.
"""

from __future__ import annotations

from collections.abc import Callable

from legato.base.errors import ImportModelError
from legato.frontend import dims
from legato.frontend.onnx.codes import codes, needed, numbers, parameters
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import activation, nn, quantize
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"


def quantize_linear(b: Emitter, x: Expr, scale: Expr, zero: Expr | None = None, *, axis: int = 1) -> Expr:
    return quantize.quantize_linear_13(b, x, scale, zero, axis=axis)


def dequantize_linear(b: Emitter, x: Expr, scale: Expr, zero: Expr | None = None, *, axis: int = 1) -> Expr:
    return quantize.dequantize_linear_13(b, x, scale, zero, axis=axis)


# ------------------------------------------------------------------ by way of numbers


Binary = Callable[[Expr, Expr], Expr]
Triple = tuple[Expr, Expr, Expr]  # codes, their scale, their zero point


def _of_two(b: Emitter, f: Binary, x: Triple, y: Triple, scale: Expr, zero: Expr | None) -> Expr:
    """Codes of `f` of two tensors, each with its scale and zero point."""
    return codes(b, f(numbers(b, *x), numbers(b, *y)), scale, zero, x[0])


def q_linear_add(
    b: Emitter,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    y: Expr,
    y_scale: Expr,
    y_zero: Expr,
    scale: Expr,
    zero: Expr | None = None,
) -> Expr:
    return _of_two(b, b.op("add"), (x, x_scale, x_zero), (y, y_scale, y_zero), scale, zero)


def q_linear_mul(
    b: Emitter,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    y: Expr,
    y_scale: Expr,
    y_zero: Expr,
    scale: Expr,
    zero: Expr | None = None,
) -> Expr:
    return _of_two(b, b.op("multiply"), (x, x_scale, x_zero), (y, y_scale, y_zero), scale, zero)


def q_linear_where(
    b: Emitter,
    condition: Expr,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    y: Expr,
    y_scale: Expr,
    y_zero: Expr,
    scale: Expr,
    zero: Expr,
) -> Expr:
    return _of_two(b, lambda p, q: b.where(condition, p, q), (x, x_scale, x_zero), (y, y_scale, y_zero), scale, zero)


def q_linear_concat(b: Emitter, scale: Expr, zero: Expr, *parts: Expr, axis: int) -> Expr:
    """`parts`: each tensor, its scale, its zero point."""
    if not parts or len(parts) % 3:
        raise ImportModelError(f"{len(parts)} inputs to put together, wanted tensors, each with scale and zero point")
    triples = [parts[n : n + 3] for n in range(0, len(parts), 3)]
    found = [numbers(b, *triple) for triple in triples]
    return codes(b, b.concatenate(*found, axis=b.axis(axis, b.rank(found[0]))), scale, zero, zero)


def q_linear_softmax(
    b: Emitter,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None = None,
    scale: Expr | None = None,
    zero: Expr | None = None,
    *,
    axis: int = -1,
    opset: int,
) -> Expr:
    """`opset`: that of the softmax that this was; before 13 all dims from `axis` on are one."""
    softmax = activation.softmax if opset < 13 else activation.softmax_13
    return codes(b, softmax(b, numbers(b, x, x_scale, x_zero), axis=axis), needed(scale, "Y_scale"), zero, x)


# ------------------------------------------------------------------ by tables


def q_linear_sigmoid(
    b: Emitter, x: Expr, x_scale: Expr, x_zero: Expr | None = None, scale: Expr | None = None, zero: Expr | None = None
) -> Expr:
    return b.qnn.sigmoid(x, *parameters(b, x, x_scale, x_zero), *parameters(b, x, needed(scale, "Y_scale"), zero))


def q_linear_leaky_relu(
    b: Emitter,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None = None,
    scale: Expr | None = None,
    zero: Expr | None = None,
    *,
    alpha: float = 0.01,
) -> Expr:
    return b.qnn.leaky_relu(
        x, *parameters(b, x, x_scale, x_zero), *parameters(b, x, needed(scale, "Y_scale"), zero), alpha=alpha
    )


# ------------------------------------------------------------------ channels first or last


def _in_order(b: Emitter, x: Expr, is_last: int, make: Callable[[Expr], Expr]) -> Expr:
    """What `make` gives for an image whose channels are first, or last if that is so; so are those of the result."""
    return dims.channels_last(b, make(dims.channels_first(b, x))) if is_last else make(x)


def q_linear_average_pool(
    b: Emitter,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None = None,
    scale: Expr | None = None,
    zero: Expr | None = None,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
    channels_last: bool = False,
    count_include_pad: bool = False,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    def pooled(v: Expr) -> Expr:
        return nn.average_pool(b, v, auto_pad=auto_pad, ceil_mode=ceil_mode, count_include_pad=count_include_pad,
                               kernel_shape=kernel_shape, pads=pads, strides=strides)  # fmt: skip

    means = _in_order(b, numbers(b, x, x_scale, x_zero), channels_last, pooled)
    return codes(b, means, needed(scale, "Y_scale"), zero, x)


def q_linear_global_average_pool(
    b: Emitter, x: Expr, x_scale: Expr, x_zero: Expr, scale: Expr, zero: Expr, *, channels_last: bool = False
) -> Expr:
    values = numbers(b, x, x_scale, x_zero)
    means = _in_order(b, values, channels_last, lambda v: nn.global_average_pool(b, v))
    return codes(b, means, scale, zero, x)


def q_linear_reduce_mean(
    b: Emitter,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr | None = None,
    scale: Expr | None = None,
    zero: Expr | None = None,
    *,
    axes: tuple[int, ...],
    keepdims: bool,
) -> Expr:
    along = tuple(b.axis(n, b.rank(x)) for n in axes) or tuple(range(b.rank(x)))
    means = b.mean(numbers(b, x, x_scale, x_zero), axis=along, keepdims=keepdims)
    return codes(b, means, needed(scale, "Y_scale"), zero, x)


def q_linear_conv(
    b: Emitter,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    w: Expr,
    w_scale: Expr,
    w_zero: Expr,
    y_scale: Expr,
    y_zero: Expr,
    bias: Expr | None = None,
    *,
    auto_pad: str = "NOTSET",
    channels_last: bool = False,
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    def convolved(x: Expr) -> Expr:
        return quantize.q_linear_conv(b, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias,
                                      auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
                                      pads=pads, strides=strides)  # fmt: skip

    return _in_order(b, x, channels_last, convolved)
