"""Products of codes in ONNX Runtime's own domain, some of numbers that are quantised on the way; layers of these."""

from __future__ import annotations

import numpy as np

from legato.base import dtype as dt
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.codes import codes, flat, multiplied, needed, numbers, of_rows, zero_or
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import quantize, recurrent
from legato.frontend.onnx.operators.microsoft_attention import attention
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"

# ------------------------------------------------------------------ products


def q_gemm(
    b: Emitter,
    x: Expr,
    x_scale: Expr,
    x_zero: Expr,
    y: Expr,
    y_scale: Expr,
    y_zero: Expr,
    c: Expr | None = None,
    scale: Expr | None = None,
    zero: Expr | None = None,
    *,
    alpha: float = 1.0,
    transA: bool = False,
    transB: bool = False,
) -> Expr:
    """alpha · (x′ · y′ + c), where c is int32 at the scale of the product; numbers if there is no scale for codes."""
    x, y = (b.transpose(v, axes=(1, 0)) if turned else v for v, turned in ((x, transA), (y, transB)))
    found = multiplied(b, x, y, x_zero, y_zero)
    found = found if c is None else b.add(found, c)
    factor = b.multiply(b.multiply(flat(b, x_scale), flat(b, y_scale)), b.like(alpha, x_scale))
    result = b.multiply(b.cast(found, dtype=dt.float32), factor)
    return result if scale is None or zero is None else codes(b, result, scale, zero, zero)


def mat_mul_integer_to_float(
    b: Emitter,
    x: Expr,
    y: Expr,
    x_scale: Expr,
    y_scale: Expr,
    x_zero: Expr | None = None,
    y_zero: Expr | None = None,
    bias: Expr | None = None,
) -> Expr:
    found = b.cast(multiplied(b, x, y, x_zero, y_zero), dtype=dt.float32)
    left, right = b.wide(of_rows(b, x_scale, 2)), b.wide(flat(b, y_scale))
    result = b.multiply(found, b.multiply(left, right))
    return b.to(result if bias is None else b.add(result, b.wide(bias)), b.dtype(x_scale))


def dynamic_quantize_mat_mul(
    b: Emitter, x: Expr, y: Expr, y_scale: Expr, y_zero: Expr | None = None, bias: Expr | None = None
) -> Expr:
    own, scale, zero = quantize.dynamic_quantize_linear(b, x)
    return mat_mul_integer_to_float(b, own, y, scale, y_scale, zero, y_zero, bias)


# ------------------------------------------------------------------ weights of few bits


def mat_mul_n_bits(
    b: Emitter,
    x: Expr,
    packed: Expr,
    scales: Expr,
    zeros: Expr | None = None,
    g_idx: Expr | None = None,
    bias: Expr | None = None,
    *,
    K: int,
    N: int,
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
    weight_prepacked: bool = False,
) -> Expr:
    """x · wᵀ with the weight w (N, K) packed in blocks of `block_size`; `accuracy_level` would allow less accuracy."""
    if bits not in (2, 4, 8) or block_size < 16 or min(K, N) < 1:
        raise ImportModelError(
            f"K {K}, N {N}, bits {bits}, block_size {block_size}: wanted 2, 4 or 8 bits, blocks of 16"
        )
    if g_idx is not None or weight_prepacked:
        what = "weights packed for one kind of processor" if weight_prepacked else "the order of groups (g_idx)"
        raise UnsupportedError(f"MatMulNBits with {what}", hint="quantise the model without it")
    blocks = -(-K // block_size)
    b.dims_of_rank(packed, 3, "the packed weight")
    packed = b.agreed(packed, (N, blocks, block_size * bits // 8), "the packed weight")
    scales = b.reshape(scales, newshape=(N, blocks))
    w = b.columns(_unpacked(b, packed, bits, (N, blocks * block_size)), 0, K)
    values = _unblocked(b, w, scales, _block_zeros(b, zeros, bits, (N, blocks)), block_size)
    y = b.nn.dense(x, values, out_dtype=b.sum_dtype(x, bias is not None))
    return y if bias is None else b.to(b.add(y, b.to(bias, b.dtype(y))), b.dtype(x))


def _unpacked(b: Emitter, packed: Expr, bits: int, shape: tuple[int, int]) -> Expr:
    """Integers of few bits, several to a byte, the first in its lowest bits: as uint8 of `shape`."""
    if bits == 8:
        return b.reshape(packed, newshape=shape)
    shifts = b.constant(np.arange(0, 8, bits, dtype=np.uint8))
    parts = b.right_shift(b.expand_dims(packed, axis=b.rank(packed)), shifts)
    return b.reshape(b.bitwise_and(parts, b.constant((1 << bits) - 1, dt.uint8)), newshape=shape)


def _block_zeros(b: Emitter, zeros: Expr | None, bits: int, shape: tuple[int, int]) -> Expr:
    """A zero point for each block: packed by rows, or one to an element; none: the middle of the range."""
    if zeros is None:
        return b.full(b.constant(1 << (bits - 1), dt.uint8), shape=shape)
    if b.dtype(zeros) != dt.uint8:
        return b.reshape(zeros, newshape=shape)
    rows, blocks = shape
    each = -(-blocks * bits // 8)
    whole = _unpacked(b, b.reshape(zeros, newshape=(rows, each)), bits, (rows, each * 8 // bits))
    return b.columns(whole, 0, blocks)


def _unblocked(b: Emitter, w: Expr, scales: Expr, zeros: Expr, block_size: int) -> Expr:
    """The numbers of codes with a scale for each block of columns; zero points may be numbers, too."""
    if not b.dtype(zeros).is_float:
        return b.qnn.dequantize(w, scales, zeros, axis=1, block_size=block_size, out_dtype=b.dtype(scales))
    count = b.dims_of(w)[1]
    scale, zero = (b.columns(b.repeat(b.wide(p), repeats=block_size, axis=1), 0, count) for p in (scales, zeros))
    return b.to(b.multiply(b.subtract(b.cast(w, dtype=b.dtype(scale)), zero), scale), b.dtype(scales))


# ------------------------------------------------------------------ layers


def dynamic_quantize_lstm(
    b: Emitter,
    x: Expr,
    w: Expr,
    r: Expr,
    bias: Expr | None = None,
    sequence_lens: Expr | None = None,
    initial_h: Expr | None = None,
    initial_c: Expr | None = None,
    peepholes: Expr | None = None,
    w_scale: Expr | None = None,
    w_zero: Expr | None = None,
    r_scale: Expr | None = None,
    r_zero: Expr | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] = (),
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: bool = False,
) -> tuple[Expr, ...]:
    """The input is rounded to codes, the state between steps is not: nearer to the numbers than ONNX Runtime."""
    rounded = numbers(b, *quantize.dynamic_quantize_linear(b, x))
    return recurrent.lstm(
        b,
        rounded,
        _weight(b, w, needed(w_scale, "W_scale"), needed(w_zero, "W_zero_point")),
        _weight(b, r, needed(r_scale, "R_scale"), needed(r_zero, "R_zero_point")),
        bias,
        sequence_lens,
        initial_h,
        initial_c,
        peepholes,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        activations=activations,
        clip=clip,
        direction=direction,
        hidden_size=hidden_size,
        input_forget=input_forget,
    )


def _weight(b: Emitter, w: Expr, scale: Expr, zero: Expr) -> Expr:
    """A weight (directions, inputs, gates) as numbers, its last dims swapped; scales for directions, or gates too."""

    def laid(p: Expr) -> Expr:
        return b.expand_dims(p, axis=1, num_newaxis=4 - b.rank(p) - 1)

    found = b.qnn.dequantize(w, laid(scale), laid(zero), out_dtype=b.dtype(scale))
    return b.transpose(found, axes=(0, 2, 1))


def q_attention(
    b: Emitter,
    x: Expr,
    weights: Expr,
    bias: Expr,
    x_scale: Expr,
    w_scale: Expr,
    mask_index: Expr | None = None,
    x_zero: Expr | None = None,
    w_zero: Expr | None = None,
    past: Expr | None = None,
    *,
    do_rotary: bool = False,
    mask_filter_value: float = -10000.0,
    num_heads: int,
    past_present_share_buffer: bool = False,
    scale: float | None = None,
    unidirectional: bool = False,
) -> tuple[Expr, ...]:
    """Attention of the numbers that codes of the input and of the weights stand for."""
    if past_present_share_buffer:
        raise UnsupportedError("a past that shares its buffer with the present", hint="export the decoder without it")
    own = zero_or(b, w_zero, b.dtype(weights))
    w = b.qnn.dequantize(weights, w_scale, own, axis=1, out_dtype=b.dtype(w_scale))
    return attention(b, numbers(b, x, x_scale, x_zero), w, bias, mask_index, past, do_rotary=do_rotary,
                     mask_filter_value=mask_filter_value, num_heads=num_heads, scale=scale,
                     unidirectional=unidirectional)  # fmt: skip
