"""Fourier transforms of ONNX Runtime's own domain: of real numbers, along the last dim."""

from __future__ import annotations

from legato.base.errors import UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import signal
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"


def rfft(b: Emitter, x: Expr, *, normalized: bool = False, onesided: bool = True, signal_ndim: int = 1) -> Expr:
    """[…, n] to […, n // 2 + 1, 2]."""
    _require_plain(normalized, onesided, signal_ndim)
    rank = b.rank(x)
    return signal.dft(b, b.expand_dims(x, axis=rank), axis=rank - 1, onesided=True)


def irfft(b: Emitter, x: Expr, *, normalized: bool = False, onesided: bool = True, signal_ndim: int) -> Expr:
    """[…, n / 2 + 1, 2] to […, n]."""
    _require_plain(normalized, onesided, signal_ndim)
    last = b.rank(x) - 1
    return b.squeeze(signal.dft(b, x, axis=last - 1, inverse=True, onesided=True), axis=(last,))


def _require_plain(normalized: bool, onesided: bool, count: int) -> None:
    if normalized or not onesided or count != 1:
        has = f"normalized={int(normalized)}, onesided={int(onesided)}, signal_ndim={count}"
        raise UnsupportedError(f"{has}: 0, 1 and 1 are possible", hint="DFT of the standard has the other forms")
