"""Formats of numbers in at most 8 bits: what dtypes that only store are made of.

    s eeee mmm     x = (-1)^s · 1.mmm · 2^(eeee - bias), or 0.mmm · 2^(1 - bias) where eeee is 0

A code is the bits of one number, in the low bits of a byte. Formats are told apart by these facts alone; conversions
follow from them (`base.storage` on arrays, `codegen.lowbit` in kernels).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from legato.base.dataclass import dataclass

__all__ = ["FORMATS", "FloatFormat", "Format", "IntFormat", "PowerFormat"]


@dataclass(frozen=True, slots=True)
class IntFormat:
    """Integers of `width` bits, in two's complement where `signed`."""

    name: str
    width: int
    signed: bool

    @property
    def min(self) -> int:
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def max(self) -> int:
        return (1 << (self.width - self.signed)) - 1


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """Floats of `width` bits, the last `mantissa` of them of the mantissa.

    `largest` is the code of the largest number. `infinity` is that of what a larger one becomes where it is no number,
    without its sign; None: it becomes the largest. `nan` is the code of NaN, None where there is none: NaN becomes a
    zero. one_zero: there is no negative 0, and NaN has no sign: it has the code that negative 0 would have. `dlpack` is
    DLPack's number of the type.
    """

    name: str
    width: int
    mantissa: int
    bias: int
    largest: int
    infinity: int | None
    nan: int | None
    dlpack: int
    one_zero: bool = False

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << (self.width - 1)


@dataclass(frozen=True, slots=True)
class PowerFormat:
    """Powers of two from 2^-bias on, and NaN: an exponent alone, the factor that many numbers share.

    What is halfway between two of them, or more, becomes the greater one, and so does, as everywhere, whatever lies
    between the least two; 0 and negative numbers become NaN.
    """

    name: str
    width: int
    bias: int
    largest: int
    nan: int
    dlpack: int


Format = IntFormat | FloatFormat | PowerFormat

_ALL: tuple[Format, ...] = (
    FloatFormat("float8_e4m3fn", 8, 3, 7, 0x7E, 0x7F, 0x7F, 10),
    FloatFormat("float8_e4m3fnuz", 8, 3, 8, 0x7F, 0x80, 0x80, 11, one_zero=True),
    FloatFormat("float8_e5m2", 8, 2, 15, 0x7B, 0x7C, 0x7E, 12),
    FloatFormat("float8_e5m2fnuz", 8, 2, 16, 0x7F, 0x80, 0x80, 13, one_zero=True),
    PowerFormat("float8_e8m0fnu", 8, 127, 0xFE, 0xFF, 14),
    FloatFormat("float6_e2m3fn", 6, 3, 1, 0x1F, None, None, 15),
    FloatFormat("float6_e3m2fn", 6, 2, 3, 0x1F, None, None, 16),
    FloatFormat("float4_e2m1fn", 4, 1, 1, 0x07, None, None, 17),
    IntFormat("int4", 4, signed=True),
    IntFormat("uint4", 4, signed=False),
    IntFormat("int2", 2, signed=True),
    IntFormat("uint2", 2, signed=False),
)
FORMATS: Mapping[str, Format] = MappingProxyType({f.name: f for f in _ALL})
