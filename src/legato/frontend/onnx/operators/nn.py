"""Convolutions, pooling and matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence

from legato.arith.expr import Const, cdiv, const, max_
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.maxima import places_of_maxima
from legato.ir.expr import Expr
from legato.ir.types import Dim

# ------------------------------------------------------------------ windows


@dataclass(frozen=True, slots=True)
class _Windows:
    """How windows move over the spatial dims; one entry per dim. `pads`: all befores, then all afters.

    `around` is automatic padding that follows from symbolic extents, (before, after) of each dim; then there are no
    `pads`.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]
    around: tuple[tuple[Dim, Dim], ...] = ()

    @property
    def reach(self) -> tuple[int, ...]:
        """Elements from the first to the last that one window touches."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))


def _windows(
    b: Emitter, x: Expr, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int],
    auto_pad: str,
) -> _Windows:  # fmt: skip
    """The windows that the attributes describe on `x` (N, C, spatial…), automatic padding worked out."""
    rank = b.rank(x) - 2
    if rank not in (1, 2, 3):
        raise UnsupportedError(f"{rank} spatial dimensions; 1 to 3 are possible")
    strides, dilations = tuple(strides) or (1,) * rank, tuple(dilations) or (1,) * rank
    for name, values in (("kernel_shape", kernel), ("strides", strides), ("dilations", dilations)):
        if len(values) != rank or min(values) < 1:
            raise ImportModelError(f"{name} is {list(values)}, wanted {rank} positive integers")
    if pads and len(pads) != 2 * rank:
        raise ImportModelError(f"pads is {list(pads)}, wanted {2 * rank} integers")
    plain = _Windows(tuple(kernel), strides, dilations, tuple(pads) or (0,) * 2 * rank)
    if auto_pad == "NOTSET":
        return plain
    if auto_pad == "VALID":
        return _Windows(plain.kernel, strides, dilations, (0,) * 2 * rank)
    totals = [
        _same_total(d, stride, reach) for d, stride, reach in zip(b.dims_of(x)[2:], strides, plain.reach, strict=True)
    ]
    sides = _divided(totals, auto_pad)
    known = tuple(int(d.value) for d in sides if isinstance(d, Const))
    if len(known) == len(sides):
        return _Windows(plain.kernel, strides, dilations, known)
    around = tuple(zip(sides[:rank], sides[rank:], strict=True))
    return _Windows(plain.kernel, strides, dilations, (0,) * 2 * rank, around)


def _same_total(extent: Dim, stride: int, reach: int) -> Dim:
    """Padding with which there are extent / stride windows, rounded up."""
    if stride == 1:
        return const(reach - 1)
    total = (cdiv(extent, stride) - 1) * stride + reach - extent
    return simplify(total if reach >= stride else max_(total, const(0)))


def _divided(totals: Sequence[Dim], auto_pad: str) -> tuple[Dim, ...]:
    """Befores and afters; an odd element goes to the end (SAME_UPPER) or the beginning (SAME_LOWER)."""
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise ImportModelError(f"auto_pad is {auto_pad!r}, wanted NOTSET, SAME_UPPER, SAME_LOWER or VALID")
    small = tuple(simplify(t // const(2)) for t in totals)
    large = tuple(simplify(t - half) for t, half in zip(totals, small, strict=True))
    return small + large if auto_pad == "SAME_UPPER" else large + small


def _surrounded(b: Emitter, x: Expr, w: _Windows, fill: float) -> Expr:
    """`x` with automatic padding that is not known at compile time, of value `fill`, around it."""
    return b.nn.pad(x, b.like(fill, x), pad_width=((0, 0), (0, 0), *w.around)) if w.around else x


def _lowest(dtype: DType) -> float:
    """What no element is smaller than."""
    return -math.inf if dtype.is_float else dtype.min


def _with_kernel(b: Emitter, weight: Expr, given: Sequence[int]) -> tuple[Expr, tuple[int, ...]]:
    """A weight and its spatial extents, which `given`, if it says anything, states again."""
    if given and len(given) == b.rank(weight) - 2:
        weight = b.agreed(weight, (None, None, *given), "the weight")
    found = tuple(b.known(d, "an extent of the weight") for d in b.dims_of(weight)[2:])
    if given and tuple(given) != found:
        raise ImportModelError(f"kernel_shape is {list(given)}, but the weight has {list(found)}")
    return weight, found


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
    weight, kernel = _with_kernel(b, weight, kernel_shape)
    w = _windows(b, x, kernel, strides, dilations, pads, auto_pad)
    x, pads = _surrounded(b, x, w, 0), w.pads
    if min(pads) < 0:  # negative padding cuts off
        x, pads = _padded(b, x, pads), (0,) * len(pads)
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
    weight, kernel = _with_kernel(b, weight, kernel_shape)
    w = _windows(b, x, kernel, strides, dilations, pads, "NOTSET" if same else auto_pad)
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
    around = _divided([const(max(t, 0)) for t in known], auto_pad)
    sides = tuple(int(d.value) for d in around if isinstance(d, Const))
    return sides, tuple(e - min(t, 0) for e, t in zip(extra, known, strict=True))


# ------------------------------------------------------------------ pooling


def max_pool(
    b: Emitter,
    x: Expr,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] = (),
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] = (),
    storage_order: int = 0,
    strides: tuple[int, ...] = (),
) -> tuple[Expr, ...]:
    """The maxima, and where they are in the flat input if the node asks for that, counted as `storage_order` says."""
    w = _windows(b, x, kernel_shape, strides, dilations, pads, auto_pad)
    lowest = _lowest(b.dtype(x))
    y = b.call(f"nn.max_pool{len(w.kernel)}d", _surrounded(b, x, w, lowest), pool_size=w.kernel, strides=w.strides,
               dilation=w.dilations, padding=w.pads, ceil_mode=bool(ceil_mode))  # fmt: skip
    if b.outputs == 1:
        return (y,)
    before = [first for first, _ in w.around] or [const(p) for p in w.pads[: len(w.kernel)]]
    windows = list(zip(w.kernel, w.strides, w.dilations, before, strict=True))
    return y, places_of_maxima(b, x, y, windows, lowest, by_columns=bool(storage_order))


def average_pool(
    b: Emitter,
    x: Expr,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: tuple[int, ...] = (),
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    w = _windows(b, x, kernel_shape, strides, dilations, pads, auto_pad)

    def means(values: Expr) -> Expr:
        values = _surrounded(b, values, w, 0)
        return b.call(f"nn.avg_pool{len(w.kernel)}d", values, pool_size=w.kernel, strides=w.strides,
                      dilation=w.dilations, padding=w.pads, ceil_mode=bool(ceil_mode),
                      count_include_pad=bool(count_include_pad))  # fmt: skip

    if not w.around or count_include_pad:
        return means(x)
    inside = b.full(b.like(1, x), shape=(1, 1, *b.dims_of(x)[2:]))
    return b.divide(means(x), means(inside))  # the share of each window that is no padding


def lp_pool(
    b: Emitter,
    x: Expr,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] = (),
    kernel_shape: tuple[int, ...],
    p: float = 2,
    pads: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
) -> Expr:
    """The p-norm of each window: its mean of |x|^p, times the number of elements, to the power 1/p."""
    if ceil_mode:
        raise UnsupportedError("ceil_mode")
    if p < 1:
        raise ImportModelError(f"p is {p}, wanted a positive number")
    count = 1
    for k in kernel_shape:
        count *= k
    wide = b.wide(x)
    powers = b.power(b.abs(wide), b.like(p, wide))
    mean = average_pool(b, powers, auto_pad=auto_pad, count_include_pad=1, dilations=dilations,
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


def _padded(b: Emitter, x: Expr, pads: Sequence[int]) -> Expr:
    half = len(pads) // 2
    width = ((0, 0), (0, 0), *zip(pads[:half], pads[half:], strict=True))
    return b.nn.pad(x, b.like(0, x), pad_width=width)


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
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Expr:
    """alpha · x′ · y′ + beta · c. `broadcast` is of operator sets below 7, and says what is so in any case."""
    if b.rank(x) != 2 or b.rank(y) != 2:
        raise ImportModelError(f"operands of ranks {b.rank(x)} and {b.rank(y)}, wanted matrices")
    c = None if beta == 0.0 else c
    dtype = b.sum_dtype(x, c is not None or alpha != 1.0)
    if transB and not transA:
        z = b.nn.dense(x, y, out_dtype=dtype)
    else:
        z = b.nn.matmul(x, y, transpose_a=bool(transA), transpose_b=bool(transB), out_dtype=dtype)
    z = z if alpha == 1.0 else b.multiply(z, b.like(alpha, z))
    if c is None:
        return b.to(z, b.dtype(x))
    c = b.to(c, b.dtype(z))
    return b.to(b.add(z, c if beta == 1.0 else b.multiply(c, b.like(beta, c))), b.dtype(x))


def einsum(b: Emitter, *xs: Expr, equation: str) -> Expr:
    return b.einsum(*xs, equation=equation)
