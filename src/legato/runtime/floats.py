"""The floating-point environment of kernels, for what else computes a program's numbers: constants, the interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from legato.base.errors import PlatformError
from legato.runtime.binding import library

__all__ = ["float_environment"]


@contextmanager
def float_environment(*, flush: bool = False) -> Iterator[None]:
    """This thread computes as kernels do: rounding to nearest, whatever the caller has set; subnormal numbers are kept
    or, with `flush`, count as 0. NumPy says nothing of infinities and NaNs. Where no kernel could run, floats are left
    as they are."""
    try:
        native = library()
    except PlatformError:
        native = None
    saved = None if native is None else native.lg_floats_enter(flush)
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        if native is not None:
            native.lg_floats_leave(saved)
