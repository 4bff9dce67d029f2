"""Fourier transforms of ONNX Runtime's own domain: of real numbers, along the last dim."""

from __future__ import annotations

from legato.base.errors import UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.operators import signal
from legato.ir.expr import Expr

DOMAIN = "com.microsoft"


def rfft(b: Emitter, x: Expr, *, normalized: int = 0, onesided: int = 1, signal_ndim: int = 1) -> Expr:
    """[…, n] to […, n // 2 + 1, 2]."""
    _require_plain(normalized, onesided, signal_ndim)
    rank = b.rank(x)
    return signal.dft(b, b.expand_dims(x, axis=rank), axis=rank - 1, onesided=1)


def irfft(b: Emitter, x: Expr, *, normalized: int = 0, onesided: int = 1, signal_ndim: int) -> Expr:
    """[…, n / 2 + 1, 2] to […, n]."""
    _require_plain(normalized, onesided, signal_ndim)
    last = b.rank(x) - 1
    return b.squeeze(signal.dft(b, x, axis=last - 1, inverse=1, onesided=1), axis=(last,))


def _require_plain(normalized: int, onesided: int, count: int) -> None:
    if normalized or not onesided or count != 1:
        raise UnsupportedError(f"normalized={normalized}, onesided={onesided}, signal_ndim={count}: 0, 1 and 1 are "
                               "possible")  # fmt: skip
