"""How exactly results are computed, beyond what the program's dtypes say."""

from __future__ import annotations

import enum
from typing import Final

from legato.base.errors import CompileError

__all__ = ["NARROW", "NEAR", "Precision", "near_of", "precision"]

NEAR: Final = 1e-3  # distance of outputs from another engine's that is allowed, as a share of their range
NARROW: Final = 0.05  # the same where factors are bfloat16: what eight bits of mantissa may leave after many layers


class Precision(enum.Enum):
    """What may be traded for speed, in programs of float32. Subnormal numbers of any type are kept by EXACT only; they
    count as 0 elsewhere, as operands and as results, since processors may take a hundred times as long for them.

    DEFAULT: algorithms whose rounding errors are about as large as those of the sum as it stands (at most about twice).
    EXACT:   no algorithm that rounds more than that sum, or spreads infinities and NaNs further.
    FAST:    algorithms with errors up to about six times as large, too.
    BFLOAT16: factors of matrix products and convolutions are rounded to bfloat16 (8 bits), and summed up in float32.
    """

    DEFAULT = "default"
    EXACT = "exact"
    FAST = "fast"
    BFLOAT16 = "bfloat16"


def precision(name: str | Precision | None) -> Precision:
    """The precision called `name`; None is the default. CompileError for an unknown one."""
    if isinstance(name, Precision):
        return name
    if name is None:
        return Precision.DEFAULT
    for known in Precision:
        if known.value == name:
            return known
    names = ", ".join(p.value for p in Precision)
    raise CompileError(f"unknown precision {name!r}", hint=f"one of {names}")


def near_of(precision: Precision) -> float:
    """The distance from another implementation that is allowed, as a share of the range."""
    return NARROW if precision is Precision.BFLOAT16 else NEAR
