"""Fourier transforms: dft, rdft of real data, and stft of short windows. All are made of matrix products (`_fourier`).

All floats are computed in float64, and rounded once.
"""

from __future__ import annotations

import numpy as np

from legato.arith.expr import const
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, TupleType, Type
from legato.ops._computed import extent_scalar
from legato.ops._families import quiet
from legato.ops._fourier import fourier, windows
from legato.ops._gradients import extents, narrowed, shape_of
from legato.ops._moving import as_dim, as_int
from legato.ops._rules import FLOAT, at_least, require_dtype, require_rank, same_dtype, same_shape, tensor
from legato.ops._tensors import Array

__all__ = ["DFTAttrs", "STFTAttrs", "dft", "frames", "rdft", "stft"]


@dataclass(frozen=True, slots=True)
class DFTAttrs(Attrs):
    """`inverse`: the transform back, which divides by the length."""

    inverse: bool = False


@dataclass(frozen=True, slots=True)
class STFTAttrs(Attrs):
    """`n_fft`: the length of transforms; `hop_length`: how far windows are apart; `win_length`: how many elements of
    one are read; `normalized`: divided by the root of n_fft; `onesided`: the frequencies up to the middle."""

    n_fft: int | Dim
    hop_length: int | Dim
    win_length: int | Dim
    normalized: bool = False
    onesided: bool = True


def _relation(rel: Relation, re: Type, im: Type, a: DFTAttrs) -> Type:
    real, imaginary = tensor(rel, re, "real part"), tensor(rel, im, "imaginary part")
    require_dtype(rel, real, FLOAT, "real part")
    same_dtype(rel, real, imaginary)
    if not real.rank:
        raise rel.fail("the real part has rank 0, wanted 1 or more: the last dim is transformed")
    ty = TensorType(same_shape(rel, real.shape, imaginary.shape, "parts"), real.dtype)
    return TupleType((ty, ty))


def _reference(re: Array, im: Array, a: DFTAttrs) -> tuple[Array, Array]:
    x = re.astype(np.float64) + 1j * im.astype(np.float64)
    y = x if not x.shape[-1] else np.fft.ifft(x) if a.inverse else np.fft.fft(x)
    return y.real.astype(re.dtype), y.imag.astype(re.dtype)


def _expand(b: Builder, re: Expr, im: Expr, a: DFTAttrs) -> Expr:
    return b.tuple_(fourier(b, re, im, inverse=a.inverse))


def _pair(shape: tuple[int, ...], dtype: str = "float32") -> tuple[tuple[tuple[int, ...], str], ...]:
    return (shape, dtype), (shape, dtype)


dft = Op(
    name="dft",
    args=("re_data", "im_data"),
    attrs=DFTAttrs,
    type_rel=_relation,
    reference=quiet(_reference),
    expand=_expand,
    samples=(
        Sample(_pair((2, 6))),
        Sample(_pair((7,)), {"inverse": True}),
        Sample(_pair((2, 3, 72), "float64"), {"inverse": True}),
        Sample(_pair((2, 67))),
        Sample(_pair((1, 257), "float64")),
        Sample(_pair((1, 263))),
        Sample(_pair((3, 1))),
        Sample(_pair((2, 0))),
        Sample(_pair((0, 4))),
        Sample(_pair((2, 5), "float16")),
    ),
    doc="""(real, imaginary) parts of the discrete Fourier transform along the last dim of complex data:
y[k] = Σ_j x[j]·exp(−2πi·j·k/n). `inverse`: the sum by exp(2πi·j·k/n), divided by n.""",
)

# ------------------------------------------------------------------------------- real data


def _half(n: Dim) -> Dim:
    """How many frequencies of n real elements there are up to the middle: the others are conjugates of these."""
    return simplify(n // 2 + 1)


def _real_relation(rel: Relation, data: Type) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    if not ty.rank:
        raise rel.fail("the data has rank 0, wanted 1 or more: the last dim is transformed")
    at_least(rel, ty.shape[-1], 1, "the length of a transform")
    found = TensorType((*ty.shape[:-1], _half(ty.shape[-1])), ty.dtype)
    return TupleType((found, found))


def _real_reference(data: Array) -> tuple[Array, Array]:
    y = np.fft.rfft(data.astype(np.float64))
    return y.real.astype(data.dtype), y.imag.astype(data.dtype)


def _real_expand(b: Builder, data: Expr) -> Expr:
    return b.tuple_([_first(b, part, _half(shape_of(data)[-1])) for part in fourier(b, data, None)])


def _first(b: Builder, x: Expr, count: Dim) -> Expr:
    """The first elements along the last dim."""
    axis = len(shape_of(x)) - 1
    return b.strided_slice(x, begin=(0,), end=extents([count]), strides=(1,), axes=(axis,))


rdft = Op(
    name="rdft",
    args=("data",),
    type_rel=_real_relation,
    reference=quiet(_real_reference),
    expand=_real_expand,
    samples=(
        Sample((((2, 6), "float32"),)),
        Sample((((2, 7), "float64"),)),
        Sample((((2, 72), "float32"),)),
        Sample((((1, 263), "float64"),)),
        Sample((((3, 1), "float32"),)),
        Sample((((0, 4), "float32"),)),
        Sample((((2, 5), "float16"),)),
    ),
    doc="""(real, imaginary) parts of the first n // 2 + 1 elements of the Fourier transform along the last dim of n
real numbers; the others are conjugates of these.""",
)

# ------------------------------------------------------------------------------- short windows


def frames(n: Dim, length: Dim, step: Dim) -> Dim:
    """How many windows of `length` lie in n elements, `step` apart."""
    return simplify((n - length) // step + 1)


def _numbers(a: STFTAttrs) -> tuple[Dim, Dim, Dim]:
    return as_dim(a.n_fft), as_dim(a.hop_length), as_dim(a.win_length)


def _stft_relation(rel: Relation, data: Type, window: Type, a: STFTAttrs) -> Type:
    ty, weights = tensor(rel, data, "data"), tensor(rel, window, "window")
    require_dtype(rel, ty, FLOAT, "data")
    require_rank(rel, ty, 2, what="data")
    require_rank(rel, weights, 1, what="window")
    same_dtype(rel, ty, weights)
    length, hop, read = _numbers(a)
    at_least(rel, hop, 1, "hop_length")
    at_least(rel, length, 1, "n_fft")
    rel.same(read, length, "win_length and n_fft (pad the window with zeros)")
    rel.same(weights.shape[0], length, "elements of the window")
    at_least(rel, ty.shape[1], length, "elements of the data, beside n_fft")
    found = _half(length) if a.onesided else length
    return TensorType((ty.shape[0], found, frames(ty.shape[1], length, hop), const(2)), ty.dtype)


def _stft_reference(data: Array, window: Array, a: STFTAttrs) -> Array:
    length, hop, _ = (as_int(n) for n in _numbers(a))
    begins = np.arange(0, data.shape[1] - length + 1, hop)
    parts = data[:, begins[:, None] + np.arange(length)].astype(np.float64) * window.astype(np.float64)
    y = np.fft.rfft(parts) if a.onesided else np.fft.fft(parts)
    y = np.swapaxes(y / np.sqrt(length) if a.normalized else y, 1, 2)
    return np.stack([y.real, y.imag], -1).astype(data.dtype)


def _stft_expand(b: Builder, data: Expr, window: Expr, a: STFTAttrs) -> Expr:
    length, hop, _ = _numbers(a)
    wide, weights = b.cast(data, dtype=dt.float64), b.cast(window, dtype=dt.float64)
    x = windows(b, wide, 1, frames(shape_of(data)[1], length, hop), length, hop)
    re, im = fourier(b, b.multiply(x, weights), None)
    found = b.stack(re, im, axis=3)
    if a.onesided:
        found = b.strided_slice(found, begin=(0,), end=extents([_half(length)]), strides=(1,), axes=(2,))
    if a.normalized:
        found = b.divide(found, b.sqrt(extent_scalar(b, length, dt.float64)))
    return narrowed(b, b.transpose(found, axes=(0, 2, 1, 3)), data)


def _short(shape: tuple[int, int], length: int, hop: int, dtype: str = "float32", **more: bool) -> Sample:
    attrs = {"n_fft": length, "hop_length": hop, "win_length": length, **more}
    return Sample(((shape, dtype), ((length,), dtype)), attrs)


stft = Op(
    name="stft",
    args=("data", "window"),
    attrs=STFTAttrs,
    type_rel=_stft_relation,
    reference=quiet(_stft_reference),
    expand=_stft_expand,
    samples=(
        _short((2, 16), 6, 2),
        _short((1, 9), 5, 3, onesided=False),
        _short((1, 80), 70, 4, "float64", normalized=True),
        _short((1, 12), 4, 4, "float16"),
        _short((0, 12), 4, 5),
    ),
    doc="""[batch, frequency, window, (real, imaginary)]: the Fourier transforms of windows of data [batch, elements].

A window of n_fft elements begins at each multiple of hop_length, and is multiplied by `window`. `onesided`: the first
n_fft // 2 + 1 frequencies; `normalized`: divided by the root of n_fft. win_length has to be n_fft.""",
)
