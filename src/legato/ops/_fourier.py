"""Discrete Fourier transforms along the last dim, made of matrix products.

    y[k] = Σ_j x[j]·w^(j·k)        w = exp(∓2πi/n)

A length up to `DIRECT`, or one that only a call knows, is one product by the matrix of w^(j·k). A longer one a·c is
a transform of length a, a multiplication by w^(j·k), and a transform of length c; one that is prime, the convolution of
chirps, by transforms whose length is a power of 2. Complex numbers are pairs of tensors: real and imaginary parts. All
is computed in float64: what cancels in a sum of n terms would be lost in float32.
"""

from __future__ import annotations

import math

import numpy as np

from legato.arith.expr import Const, const, expr
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.expr import Expr
from legato.ir.types import Dim
from legato.ops._computed import extent_scalar, steps
from legato.ops._gradients import dtype_of, extents, in_shape, shape_of
from legato.ops._tensors import Array

__all__ = ["DIRECT", "Pair", "fourier", "windows"]

DIRECT = 64  # the longest transform that is one product
_PRIME = 256  # the longest of a prime length that is

Pair = tuple[Expr, Expr]
Data = tuple[Expr, Expr | None]  # the same, of which the imaginary part may be left out: it is 0


def fourier(b: Builder, re: Expr, im: Expr | None, *, inverse: bool = False) -> Pair:
    """The transform of re + i·im, or of re alone, rounded once to the dtype of `re`."""
    wide = _cast(b, re, dt.float64), None if im is None else _cast(b, im, dt.float64)
    found = _transform(b, wide, 1 if inverse else -1)
    if inverse:
        count = extent_scalar(b, shape_of(re)[-1], dt.float64)
        found = b.divide(found[0], count), b.divide(found[1], count)
    return _cast(b, found[0], dtype_of(re)), _cast(b, found[1], dtype_of(re))


def _cast(b: Builder, x: Expr, dtype: DType) -> Expr:
    return x if dtype_of(x) == dtype else b.cast(x, dtype=dtype)


def _transform(b: Builder, x: Data, sign: int) -> Pair:
    re = x[0]
    d = shape_of(re)[-1]
    if not isinstance(d, Const):
        return _product(b, x, *_matrix_at(b, d, re, sign))
    n = int(d.value)
    first = _split(n)
    if first == n:
        if n > _PRIME:
            return _chirps(b, x, n, sign)
        return _product(b, x, *(b.constant(m, dtype_of(re)) for m in _roots(np.outer(_to(n), _to(n)), n, sign)))
    return _factored(b, x, (first, n // first), sign)


def _to(n: int) -> Array:
    return np.arange(n, dtype=np.int64)


def _split(n: int) -> int:
    """The largest factor of n up to `DIRECT`; n itself if it is short; its smallest factor where all are long."""
    if n <= DIRECT:
        return n
    found = max(f for f in range(1, DIRECT + 1) if n % f == 0)
    if found > 1:
        return found
    return next((f for f in range(DIRECT + 1, math.isqrt(n) + 1) if n % f == 0), n)


def _roots(power: Array, n: int, sign: int) -> tuple[Array, Array]:
    """Real and imaginary parts of exp(sign·2πi·power/n): of a quarter of a turn as they are, not as π is rounded."""
    own = power % max(n, 1)
    angle = (2 * np.pi / max(n, 1)) * own
    cos, sin = (np.where(4 * own % max(n, 1) == 0, np.round(part), part) for part in (np.cos(angle), np.sin(angle)))
    return cos, sign * sin


def _matrix_at(b: Builder, n: Dim, like: Expr, sign: int) -> Pair:
    """The matrix of w^(j·k) for a length that is known when the program runs."""
    places = steps(b, n)
    power = b.multiply(b.expand_dims(places, axis=1), b.expand_dims(places, axis=0))
    own = b.floor_mod(power, extent_scalar(b, n, dt.int64))
    dtype = dtype_of(like)
    turn = b.multiply(b.cast(own, dtype=dtype), b.constant(sign * 2 * math.pi, dtype))
    angle = b.divide(turn, extent_scalar(b, n, dtype))
    quarters = b.floor_mod(b.multiply(own, b.constant(4, dt.int64)), extent_scalar(b, n, dt.int64))
    is_exact = b.equal(quarters, b.constant(0, dt.int64))  # as in `_roots`
    cos, sin = (b.where(is_exact, b.round(part), part) for part in (b.cos(angle), b.sin(angle)))
    return cos, sin


def _product(b: Builder, x: Data, cos: Expr, sin: Expr) -> Pair:
    """x times the matrix cos + i·sin, as one product of real matrices."""
    re, im = x
    n, matrix = shape_of(cos)[1], b.concatenate(cos, sin, axis=1)
    if im is not None:
        re = b.concatenate(re, im, axis=-1)
        matrix = b.concatenate(matrix, b.concatenate(b.negative(sin), cos, axis=1), axis=0)
    y = b.matmul(re, matrix)
    return _columns(b, y, 0, n), _columns(b, y, n, n * 2)


def _columns(b: Builder, x: Expr, begin: Dim | int, end: Dim | int) -> Expr:
    first, last = extents((expr(begin), expr(end)))
    return b.strided_slice(x, begin=(first,), end=(last,), strides=(1,), axes=(len(shape_of(x)) - 1,))


def _factored(b: Builder, x: Data, factors: tuple[int, int], sign: int) -> Pair:
    """Of length a·c: element c·j + l of the data and k + a·m of the result are at (j, l) and (k, m)."""
    (re, im), (a, c) = x, factors
    shape = (*shape_of(re)[:-1], const(a), const(c))
    apart = (_swapped(b, in_shape(b, re, shape)), None if im is None else _swapped(b, in_shape(b, im, shape)))
    turned = _times(b, _transform(b, apart, sign), _roots(np.outer(_to(c), _to(a)), a * c, sign))
    outer = _transform(b, (_swapped(b, turned[0]), _swapped(b, turned[1])), sign)
    whole = (*shape[:-2], const(a * c))
    return in_shape(b, _swapped(b, outer[0]), whole), in_shape(b, _swapped(b, outer[1]), whole)


def _swapped(b: Builder, x: Expr) -> Expr:
    rank = len(shape_of(x))
    return b.transpose(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def _times(b: Builder, x: Data, by: tuple[Array, Array]) -> Pair:
    """The product of complex numbers and constants."""
    re, im = x
    cos, sin = (b.constant(part, dtype_of(re)) for part in by)
    if im is None:
        return b.multiply(re, cos), b.multiply(re, sin)
    return (
        b.subtract(b.multiply(re, cos), b.multiply(im, sin)),
        b.add(b.multiply(re, sin), b.multiply(im, cos)),
    )


def _chirps(b: Builder, x: Data, n: int, sign: int) -> Pair:
    """Bluestein's way: 2jk = j² + k² − (k − j)², so y[k] = u[k]·Σ_j (x[j]·u[j])·ū[k − j] with u[j] = w^(j²/2)."""
    m = 1 << (2 * n - 2).bit_length()  # at least 2n − 1: what wraps around is not read
    cos, sin = _roots(_to(n) ** 2, 2 * n, sign)
    kernel = np.zeros(m, np.complex128)
    kernel[:n] = cos - 1j * sin
    kernel[m - n + 1 :] = kernel[n - 1 : 0 : -1]
    spectrum = np.fft.fft(kernel) / m
    widths = ((0, 0),) * (len(shape_of(x[0])) - 1) + ((0, m - n),)
    re, im = (b.nn.pad(part, 0.0, pad_width=widths) for part in _times(b, x, (cos, sin)))
    product = _times(b, _transform(b, (re, im), -1), (spectrum.real, spectrum.imag))
    found = _transform(b, product, 1)
    return _times(b, (_columns(b, found[0], 0, n), _columns(b, found[1], 0, n)), (cos, sin))


def windows(b: Builder, x: Expr, axis: int, count: Dim, length: Dim, step: Dim) -> Expr:
    """[…, count, length, …]: the ranges of `length` elements along `axis` that begin at multiples of `step`."""
    begins = b.multiply(steps(b, count), extent_scalar(b, step, dt.int64))
    return b.take(x, b.add(b.expand_dims(begins, axis=1), steps(b, length)), axis=axis, mode="fast")
