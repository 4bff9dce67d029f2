"""Fourier transforms of signals, windows, and the weights of mel bins."""

from __future__ import annotations

import math

from legato.arith.expr import const, max_
from legato.arith.prove import prove_equal
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.frontend.onnx.axes import over_axes
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.tensors import element_type
from legato.ir.expr import Expr
from legato.ir.types import Dim
from legato.ops._computed import steps
from legato.ops._fourier import fourier, windows
from legato.ops._rules import sides_of_least
from legato.ops.signal import frames

_MEL = 2595.0  # of a decade above _CORNER Hz
_CORNER = 700.0

# ------------------------------------------------------------------ transforms


def dft(
    b: Emitter, x: Expr, dft_length: Expr | None = None, *, axis: int = 1, inverse: bool = False, onesided: bool = False
) -> Expr:
    """The last dim of x has the real part, or both."""
    return _along(b, x, b.axis(axis, b.rank(x)), dft_length, inverse, onesided)


def dft_20(
    b: Emitter,
    x: Expr,
    dft_length: Expr | None = None,
    axis: Expr | None = None,
    *,
    inverse: bool = False,
    onesided: bool = False,
) -> Expr:
    if axis is None:
        return _along(b, x, b.axis(-2, b.rank(x)), dft_length, inverse, onesided)

    def along(x: Expr, axes: tuple[int, ...]) -> Expr:
        if len(axes) != 1:
            raise ImportModelError(f"DFT along {len(axes)} axes, wanted one")
        return _along(b, x, b.axis(axes[0], b.rank(x)), dft_length, inverse, onesided)

    return over_axes(b, x, axis, along)


def _along(b: Emitter, x: Expr, axis: int, length: Expr | None, inverse: bool, onesided: bool) -> Expr:
    """The transform along an axis, which is brought to the end for it."""
    if axis == b.rank(x) - 1:
        raise ImportModelError(f"axis {axis} of {x.ty} are the parts of numbers")
    re, im = (None if part is None else _exchanged(b, part, axis) for part in _parts(b, x))
    assert re is not None  # only the imaginary part may be absent
    n = b.dims_of(re)[-1] if length is None else b.dim(length, "the length of the transform")
    if inverse and onesided and length is None:
        n = simplify((n - 1) * 2)
    if length is not None or onesided:  # else nothing becomes nothing, but one side of it would have an element
        b.require_least(n, const(1), "the length of the transform")
    if inverse and onesided:
        found = [_real(b, re, im, n)]
    else:
        found = _complex(b, _fitted(b, re, n), None if im is None else _fitted(b, im, n), inverse, onesided)
    return b.stack(*(_exchanged(b, part, axis) for part in found), axis=b.rank(re))


def _parts(b: Emitter, x: Expr) -> tuple[Expr, Expr | None]:
    """The real and imaginary parts that the last dim holds; only a call may know which of them there are."""
    if b.rank(x) < 2 or not b.dtype(x).is_float:
        raise ImportModelError(f"a signal {x.ty}, wanted numbers whose parts are the last dim")
    last, count = b.rank(x) - 1, b.dims_of(x)[-1]
    b.require_least(count, const(1), "the parts of a number")
    b.require(*sides_of_least(const(2), count), "the parts of a number")
    re = b.take(x, b.constant(0, dt.int64), axis=last)
    if count is const(1):
        return re, None
    if count is not const(2):
        x = b.nn.pad(x, b.like(0, x), pad_width=((0, 0),) * last + ((0, 1),))
    return re, b.take(x, b.constant(1, dt.int64), axis=last, mode="fast")


def _exchanged(b: Emitter, x: Expr, axis: int) -> Expr:
    """`x` with an axis and the last one exchanged."""
    order = list(range(b.rank(x)))
    order[axis], order[-1] = order[-1], order[axis]
    return x if axis == b.rank(x) - 1 else b.transpose(x, axes=tuple(order))


def _fitted(b: Emitter, x: Expr, n: Dim) -> Expr:
    """The first n elements along the last dim, with zeros behind where there are fewer."""
    own = b.dims_of(x)[-1]
    if prove_equal(own, n):
        return x
    missing = simplify(max_(n - own, const(0)))
    if missing is not const(0):
        x = b.nn.pad(x, b.like(0, x), pad_width=((0, 0),) * (b.rank(x) - 1) + ((0, missing),))
    return b.columns(x, 0, n)


def _complex(b: Emitter, re: Expr, im: Expr | None, inverse: bool, onesided: bool) -> list[Expr]:
    if im is None and onesided:
        pair = b.rdft(re)
        return [b.get(pair, 0), b.get(pair, 1)]
    if im is None:
        return list(fourier(b, re, None, inverse=inverse))
    pair = b.dft(re, im, inverse=inverse)
    found = [b.get(pair, 0), b.get(pair, 1)]
    return [b.columns(part, 0, simplify(b.dims_of(re)[-1] // 2 + 1)) for part in found] if onesided else found


def _real(b: Emitter, re: Expr, im: Expr | None, n: Dim) -> Expr:
    """The n real elements whose first n // 2 + 1 frequencies are given; imaginary parts of those that are their own
    conjugates are not read."""
    half = simplify(n // 2 + 1)
    places = steps(b, n)
    back = b.subtract(b.extent(n, dt.int64), places)
    own = b.minimum(places, back)
    dtype = b.dtype(re)
    whole = b.take(_fitted(b, re, half), own, axis=b.rank(re) - 1, mode="fast")
    if im is None:
        imaginary = b.zeros_like(whole)
    else:
        sign = b.cast(b.where(b.equal(places, b.constant(0, dt.int64)), b.constant(0, dt.int64),
                              b.sign(b.subtract(back, places))), dtype=dtype)  # fmt: skip
        imaginary = b.multiply(b.take(_fitted(b, im, half), own, axis=b.rank(re) - 1, mode="fast"), sign)
    return b.get(b.dft(whole, imaginary, inverse=True), 0)


def stft(
    b: Emitter,
    signal: Expr,
    frame_step: Expr,
    window: Expr | None = None,
    frame_length: Expr | None = None,
    *,
    onesided: bool = True,
) -> Expr:
    """[batch, frame, frequency, parts]: the transforms of the ranges that begin at multiples of `frame_step`."""
    if b.rank(signal) == 2:
        signal = b.expand_dims(signal, axis=2)
    if b.rank(signal) != 3:
        raise ImportModelError(f"a signal {signal.ty}, wanted rank 3: batch, elements, parts of a number")
    total = b.dims_of(signal)[1]
    length, step = _length(b, total, window, frame_length), b.dim(frame_step, "the step between frames")
    b.require_least(step, const(1), "the step between frames")
    b.require_least(length, const(1), "the length of a frame")
    b.require_least(total, length, "elements of the signal")
    found = []
    for part in _parts(b, signal):
        x = None if part is None else windows(b, b.to(part, dt.float64), 1, frames(total, length, step), length, step)
        found.append(x if x is None or window is None else b.multiply(x, b.to(window, dt.float64)))
    re, im = found
    assert re is not None  # only the imaginary part may be absent
    pair = _complex(b, re, im, False, onesided)
    return b.to(b.stack(*pair, axis=3), b.dtype(signal))


def _length(b: Emitter, total: Dim, window: Expr | None, frame_length: Expr | None) -> Dim:
    """How long frames are: as the window, if there is one."""
    given = None if frame_length is None else b.dim(frame_length, "the length of a frame")
    if window is None:
        return total if given is None else given
    if b.rank(window) != 1:
        raise ImportModelError(f"a window {window.ty}, wanted a vector")
    own = b.dims_of(window)[0]
    if given is not None:
        b.require(own, given, "elements of the window")
    return own


# ------------------------------------------------------------------ windows


def hann_window(b: Emitter, size: Expr, *, output_datatype: int = 1, periodic: bool = True) -> Expr:
    return _window(b, size, output_datatype, periodic, (0.5, 0.5))


def hamming_window(b: Emitter, size: Expr, *, output_datatype: int = 1, periodic: bool = True) -> Expr:
    return _window(b, size, output_datatype, periodic, (25 / 46, 21 / 46))


def blackman_window(b: Emitter, size: Expr, *, output_datatype: int = 1, periodic: bool = True) -> Expr:
    return _window(b, size, output_datatype, periodic, (0.42, 0.5, 0.08))


def _window(b: Emitter, size: Expr, code: int, periodic: bool, weights: tuple[float, ...]) -> Expr:
    """w0 − w1·cos t + w2·cos 2t … for t from 0 to 2π, which the last element has reached if it is not periodic."""
    n, dtype = b.dim(size, "the size of the window"), element_type(code, "the result")
    wide = dt.float64 if dtype == dt.float64 else dt.float32
    places = steps(b, n, wide)
    turn = b.extent(n if periodic else simplify(max_(n - 1, const(1))), wide)
    found = b.full(b.constant(weights[0], wide), shape=(n,))
    for k, weight in enumerate(weights[1:], 1):
        angle = b.divide(b.multiply(places, b.constant(2 * math.pi * k, wide)), turn)
        found = b.add(found, b.multiply(b.cos(angle), b.constant(weight * (-1) ** k, wide)))
    return b.to(found, dtype)


def mel_weight_matrix(
    b: Emitter,
    num_mel_bins: Expr,
    dft_length: Expr,
    sample_rate: Expr,
    lower_edge_hertz: Expr,
    upper_edge_hertz: Expr,
    *,
    output_datatype: int = 1,
) -> Expr:
    """[frequency, bin]: triangles over the frequencies of a transform, evenly spaced on the mel scale."""
    bins, length = b.dim(num_mel_bins, "the number of bins"), b.dim(dft_length, "the length of the transform")
    dtype, spectrum = element_type(output_datatype, "the result"), simplify(length // 2 + 1)
    edges = _mel_edges(b, bins, length, sample_rate, lower_edge_hertz, upper_edge_hertz)
    low, peak, high = (
        b.strided_slice(edges, begin=(n,), end=(simplify(bins + n),), strides=(1,), axes=(0,)) for n in range(3)
    )
    places = b.expand_dims(steps(b, spectrum, dt.float64), axis=1)
    one, zero = b.constant(1.0, dt.float64), b.constant(0.0, dt.float64)
    rise = b.divide(b.subtract(places, low), b.maximum(b.subtract(peak, low), one))
    rise = b.where(b.logical_and(b.greater_equal(places, low), b.less_equal(places, peak)), rise, zero)
    rise = b.where(b.logical_and(b.equal(low, peak), b.equal(places, peak)), one, rise)
    fall = b.divide(b.subtract(high, places), b.maximum(b.subtract(high, peak), one))
    falls = b.logical_and(b.greater_equal(places, peak), b.less(places, high))
    return b.to(b.where(falls, fall, rise), dtype)


def _mel_edges(b: Emitter, bins: Dim, length: Dim, rate: Expr, lower: Expr, upper: Expr) -> Expr:
    """[bins + 2]: at which frequencies, counted from 0, triangles begin, have their peaks and end."""

    def number(value: float) -> Expr:
        return b.constant(value, dt.float64)

    def scalar(x: Expr, what: str) -> Expr:
        return b.reshape(b.to(b.single(x, what), dt.float64), newshape=())

    def mel(hertz: Expr) -> Expr:
        return b.multiply(b.log10(b.add(b.divide(hertz, number(_CORNER)), number(1))), number(_MEL))

    low, high = mel(scalar(lower, "the lowest frequency")), mel(scalar(upper, "the highest frequency"))
    count = simplify(bins + 2)
    step = b.divide(b.subtract(high, low), b.extent(count, dt.float64))
    places = steps(b, count, dt.float64)
    decades = b.divide(b.add(b.multiply(places, step), low), number(_MEL))
    hertz = b.multiply(b.subtract(b.exp(b.multiply(decades, number(math.log(10)))), number(1)), number(_CORNER))
    scaled = b.multiply(hertz, b.extent(simplify(length + 1), dt.float64))
    return b.floor(b.divide(scaled, scalar(rate, "the sample rate")))
