"""Convolutions, pooling and matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

from legato.arith.expr import Const, const
from legato.arith.simplify import simplify
from legato.base.dtype import DType
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.maxima import places_of_maxima
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.windows import divided, kernel_windows, surrounded, windows_of, with_kernel, within
from legato.ir.expr import Expr
from legato.ir.types import Dim

# ------------------------------------------------------------------ convolutions


def conv(
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
    weight, w = kernel_windows(b, x, weight, kernel_shape, strides, dilations, pads, auto_pad)
    x, pads = within(b, x, w)
    y = b.call(f"nn.conv{len(w.kernel)}d", x, weight, strides=w.strides, padding=pads, dilation=w.dilations,
               groups=group, out_dtype=b.sum_dtype(x, bias is not None))  # fmt: skip
    return _with_bias(b, x, y, bias)


def _with_bias(b: Emitter, x: Expr, y: Expr, bias: Expr | None) -> Expr:
    """`y`, formed from `x`, with a bias for each channel."""
    return y if bias is None else b.to(b.nn.bias_add(y, b.to(bias, b.dtype(y)), axis=1), b.dtype(x))


def conv_transpose(
    b: Emitter,
    x: Expr,
    weight: Expr,
    bias: Expr | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: tuple[int, ...] = (),
    group: int = 1,
    kernel_shape: tuple[int, ...] = (),
    output_padding: tuple[int, ...] = (),
    output_shape: tuple[int, ...] = (),
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    same = auto_pad in ("SAME_UPPER", "SAME_LOWER")
    weight, kernel = with_kernel(b, weight, kernel_shape)
    w = windows_of(b, x, kernel, strides, dilations, pads, "NOTSET" if same else auto_pad)
    rank = len(w.kernel)
    extra = output_padding or (0,) * rank
    if len(extra) != rank or len(output_shape) not in (0, rank, rank + 2):
        raise ImportModelError(f"output_padding is {list(extra)} and output_shape {list(output_shape)}")
    around = w.pads
    if output_shape or same:
        extents = b.dims_of(x)[2:]
        wanted: tuple[Dim, ...] = tuple(map(const, output_shape[-rank:]))
        if not output_shape:
            wanted = tuple(d * s for d, s in zip(extents, w.strides, strict=True))
        totals = [
            simplify((d - 1) * s + e + reach - o)
            for d, s, e, reach, o in zip(extents, w.strides, extra, w.reach, wanted, strict=True)
        ]
        around, extra = _transposed_padding(
            b, totals, extra, "SAME_UPPER" if auto_pad == "SAME_UPPER" else "SAME_LOWER"
        )
    y = b.call(f"nn.conv{rank}d_transpose", x, weight, strides=w.strides, padding=around,
               output_padding=extra, dilation=w.dilations, groups=group,
               out_dtype=b.sum_dtype(x, bias is not None))  # fmt: skip
    return _with_bias(b, x, y, bias)


def _transposed_padding(
    b: Emitter, totals: Sequence[Dim], extra: Sequence[int], auto_pad: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding and output padding; what is missing to the wanted extent is padded at the end of the output."""
    known = [b.known(t, "the padding that gives output_shape") for t in totals]
    around = divided([const(max(t, 0)) for t in known], auto_pad)
    sides = tuple(int(d.value) for d in around if isinstance(d, Const))
    return sides, tuple(e - min(t, 0) for e, t in zip(extra, known, strict=True))


# ------------------------------------------------------------------ pooling


def _lowest(dtype: DType) -> float:
    """What no element is smaller than."""
    return -math.inf if dtype.is_float else dtype.min


def max_pool(
    b: Emitter,
    x: Expr,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
    dilations: tuple[int, ...] = (),
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] = (),
    storage_order: bool = False,
    strides: tuple[int, ...] = (),
) -> tuple[Expr, ...]:
    """The maxima, and where they are in the flat input if the node asks for that, counted as `storage_order` says."""
    w = windows_of(b, x, kernel_shape, strides, dilations, pads, auto_pad)
    lowest = _lowest(b.dtype(x))
    y = b.call(f"nn.max_pool{len(w.kernel)}d", surrounded(b, x, w, lowest), pool_size=w.kernel, strides=w.strides,
               dilation=w.dilations, padding=w.pads, ceil_mode=ceil_mode)  # fmt: skip
    if b.outputs == 1:
        return (y,)
    before = [first for first, _ in w.around] or [const(p) for p in w.pads[: len(w.kernel)]]
    windows = list(zip(w.kernel, w.strides, w.dilations, before, strict=True))
    return y, places_of_maxima(b, x, y, windows, lowest, by_columns=storage_order)


def average_pool(
    b: Emitter,
    x: Expr,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    dilations: tuple[int, ...] = (),
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    w = windows_of(b, x, kernel_shape, strides, dilations, pads, auto_pad)

    def means(values: Expr) -> Expr:
        values = surrounded(b, values, w, 0)
        return b.call(f"nn.avg_pool{len(w.kernel)}d", values, pool_size=w.kernel, strides=w.strides,
                      dilation=w.dilations, padding=w.pads, ceil_mode=ceil_mode,
                      count_include_pad=count_include_pad)  # fmt: skip

    if not w.around or count_include_pad:
        return means(x)
    inside = b.full(b.like(1, x), shape=(1, 1, *b.dims_of(x)[2:]))
    return b.divide(means(x), means(inside))  # the share of each window that is no padding


def lp_pool(
    b: Emitter,
    x: Expr,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: bool = False,
    dilations: tuple[int, ...] = (),
    kernel_shape: tuple[int, ...],
    p: float = 2,
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    """The p-norm of each window: its mean of |x|^p, times the number of elements, to the power 1/p."""
    if ceil_mode:
        raise UnsupportedError("ceil_mode", hint="pads that make the last windows whole, without ceil_mode")
    if p < 1:
        raise ImportModelError(f"p is {p}, wanted a positive number")
    count = 1
    for k in kernel_shape:
        count *= k
    wide = b.wide(x)
    powers = b.power(b.abs(wide), b.like(p, wide))
    mean = average_pool(b, powers, auto_pad=auto_pad, count_include_pad=True, dilations=dilations,
                        kernel_shape=kernel_shape, pads=pads, strides=strides)  # fmt: skip
    return b.to(b.power(b.multiply(mean, b.like(count, wide)), b.like(1 / p, wide)), b.dtype(x))


def _spatial(b: Emitter, x: Expr) -> tuple[int, ...]:
    if b.rank(x) < 3:
        raise ImportModelError(f"the input has rank {b.rank(x)}, wanted batch, channels and spatial dimensions")
    return tuple(range(2, b.rank(x)))


def global_average_pool(b: Emitter, x: Expr) -> Expr:
    axes = _spatial(b, x)
    return b.nn.global_avg_pool2d(x) if len(axes) == 2 else b.mean(x, axis=axes, keepdims=True)


def global_max_pool(b: Emitter, x: Expr) -> Expr:
    axes = _spatial(b, x)
    return b.nn.global_max_pool2d(x) if len(axes) == 2 else b.max(x, axis=axes, keepdims=True)


def global_lp_pool(b: Emitter, x: Expr, *, p: float = 2) -> Expr:
    if p < 1:
        raise ImportModelError(f"p is {p}, wanted a positive number")
    wide = b.wide(x)
    powers = b.power(b.abs(wide), b.like(p, wide))
    total = b.sum(powers, axis=_spatial(b, x), keepdims=True)
    return b.to(b.power(total, b.like(1 / p, wide)), b.dtype(x))


# ------------------------------------------------------------------ products


def mat_mul(b: Emitter, x: Expr, y: Expr) -> Expr:
    return b.matmul(x, y)


def gemm(
    b: Emitter,
    x: Expr,
    y: Expr,
    c: Expr | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: bool = False,
    transA: bool = False,
    transB: bool = False,
) -> Expr:
    """alpha · x′ · y′ + beta · c. `broadcast` is of operator sets below 7, and says what is so in any case."""
    if b.rank(x) != 2 or b.rank(y) != 2:
        raise ImportModelError(f"operands of ranks {b.rank(x)} and {b.rank(y)}, wanted matrices")
    c = None if beta == 0.0 else c
    dtype = b.sum_dtype(x, c is not None or alpha != 1.0)
    if transB and not transA:
        z = b.nn.dense(x, y, out_dtype=dtype)
    else:
        z = b.nn.matmul(x, y, transpose_a=transA, transpose_b=transB, out_dtype=dtype)
    z = z if alpha == 1.0 else b.multiply(z, b.like(alpha, z))
    if c is None:
        return b.to(z, b.dtype(x))
    c = b.to(c, b.dtype(z))
    return b.to(b.add(z, c if beta == 1.0 else b.multiply(c, b.like(beta, c))), b.dtype(x))


def einsum(b: Emitter, *xs: Expr, equation: str) -> Expr:
    return b.einsum(*xs, equation=equation)
