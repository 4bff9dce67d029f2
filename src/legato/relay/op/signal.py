"""Fourier transforms of short windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.ir.expr import Expr
from legato.ir.types import TensorType
from legato.relay.expr import const
from legato.relay.op._functions import function

__all__ = ["stft"]


def stft(
    data: Expr,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Expr | None = None,
    normalized: bool = False,
    onesided: bool = True,
) -> Any:
    """[batch, frequency, window, (real, imaginary)] of data [batch, elements]. Windows are n_fft // 4 apart if nothing
    is said, as long as transforms, and rectangular."""
    length = n_fft if win_length is None else win_length
    if window is None:
        dtype = str(data.ty.dtype) if isinstance(data.ty, TensorType) else "float32"
        window = const(np.ones(length, dtype), dtype)
    hop = n_fft // 4 if hop_length is None else hop_length
    return function("stft")(data, window, n_fft, hop, length, normalized, onesided)
