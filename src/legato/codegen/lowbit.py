"""Numbers in at most 8 bits: codes (i8) in registers and in memory, converted by integer arithmetic on every target.

What a format is, is data (`base.formats`): nothing here knows one by its name. A code is read from the low bits of its
byte, whatever the others are; those of a code that is made are 0.
"""

from __future__ import annotations

import struct

from legato.base.formats import FloatFormat, Format, IntFormat, PowerFormat
from legato.codegen.builder import Builder
from legato.codegen.half import round_mantissa
from legato.codegen.value import Value, float_text

__all__ = ["decode", "encode"]

_INFINITY = 0x7F800000  # the bits of a float; above it lies NaN
_NAN = 0x7FC00000
_HALF = 0x00400000  # the first bit of the mantissa: what has it is halfway to the next power of two, or more
_LEAST = 0x00400000  # 2^-127, no normal float


def decode(b: Builder, code: Value, f: Format) -> Value:
    """The number (i32 or float) that a code stands for."""
    wide = b.unary("zext", code, "i32")
    if isinstance(f, IntFormat):
        return _whole(b, wide, f)
    return b.unary("bitcast", _power(b, wide, f) if isinstance(f, PowerFormat) else _float(b, wide, f), "float")


def encode(b: Builder, v: Value, f: Format) -> Value:
    """The code of a number: of a float, or of an integer (i8), whose last bits it is."""
    if isinstance(f, IntFormat):
        return b.binary("and", v, Value(str(mask := (1 << f.width) - 1), "i8", 1, 0, mask))
    bits = b.unary("bitcast", v, "i32")
    return b.unary("trunc", _code_of_power(b, bits, f) if isinstance(f, PowerFormat) else _code(b, bits, f), "i8")


def _int(value: int) -> Value:
    return Value(str(value), "i32", 1, 0, value)


def _bits_of(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])


def _whole(b: Builder, wide: Value, f: IntFormat) -> Value:
    if not f.signed:
        return b.binary("and", wide, _int((1 << f.width) - 1))
    above = _int(32 - f.width)
    return b.binary("ashr", b.binary("shl", wide, above), above)


def _power(b: Builder, wide: Value, f: PowerFormat) -> Value:
    bits = b.binary("shl", wide, _int(23))
    bits = b.select(b.binary("icmp eq", wide, _int(0), "i1"), _int(_LEAST), bits)
    return b.select(b.binary("icmp eq", wide, _int(f.nan), "i1"), _int(_NAN), bits)


def _float(b: Builder, wide: Value, f: FloatFormat) -> Value:
    magnitude = b.binary("and", wide, _int(f.sign - 1))
    sign = b.binary("shl", b.binary("and", wide, _int(f.sign)), _int(32 - f.width))
    normal = b.binary("add", b.binary("shl", magnitude, _int(23 - f.mantissa)), _int((127 - f.bias) << 23))
    scale = 2.0 ** (1 - f.bias - f.mantissa)
    small = b.binary("fmul", b.unary("sitofp", magnitude, "float"), _literal(scale))
    is_small = b.binary("icmp ult", magnitude, _int(1 << f.mantissa), "i1")
    bits = b.select(is_small, b.unary("bitcast", small, "i32"), normal)
    if f.infinity is not None and f.infinity != f.nan:
        bits = b.select(b.binary("icmp uge", magnitude, _int(f.infinity), "i1"), _int(_INFINITY), bits)
    if f.nan is not None and not f.one_zero:  # each code above the last number is one, if it is not that of infinity
        last = f.largest if f.infinity == f.nan or f.infinity is None else f.infinity
        bits = b.select(b.binary("icmp ugt", magnitude, _int(last), "i1"), _int(_NAN), bits)
    if f.one_zero:
        bits = b.select(b.binary("icmp eq", wide, _int(f.sign), "i1"), _int(_NAN), bits)
    return b.binary("or", bits, sign)


def _literal(value: float) -> Value:
    return Value(float_text(value, "float"), "float", 1, 0, value)


def _code(b: Builder, bits: Value, f: FloatFormat) -> Value:
    """Normal results by rounding the mantissa, subnormal ones by adding a constant that has their last place."""
    magnitude = b.binary("and", bits, _int((1 << 31) - 1))
    dropped = 23 - f.mantissa
    rounded = b.binary("lshr", round_mantissa(b, magnitude, dropped), _int(dropped))
    normal = b.binary("sub", rounded, _int((127 - f.bias) << f.mantissa))
    magic = 2.0 ** (1 - f.bias - f.mantissa + 23)
    moved = b.binary("fadd", b.unary("bitcast", magnitude, "float"), _literal(magic))
    small = b.binary("sub", b.unary("bitcast", moved, "i32"), _int(_bits_of(magic)))
    is_small = b.binary("icmp ult", magnitude, _int(_bits_of(2.0 ** (1 - f.bias))), "i1")
    code = b.select(is_small, small, normal)
    beyond = _int(f.largest if f.infinity is None else f.infinity)
    code = b.select(b.binary("icmp ugt", code, _int(f.largest), "i1"), beyond, code)
    is_nan = b.binary("icmp ugt", magnitude, _int(_INFINITY), "i1")
    sign = b.binary("and", b.binary("lshr", bits, _int(32 - f.width)), _int(f.sign))
    if f.nan is None:  # a zero, of the other sign
        code = b.select(is_nan, _int(f.sign), code)
        return b.binary("xor", code, sign)
    code = b.select(is_nan, _int(f.nan), code)
    if not f.one_zero:
        return b.binary("or", code, sign)
    is_number = b.binary("icmp ult", b.binary("sub", code, _int(1)), _int(f.largest), "i1")
    return b.select(is_number, b.binary("or", code, sign), code)


def _code_of_power(b: Builder, bits: Value, f: PowerFormat) -> Value:
    """The exponent of a positive float, and one more where the mantissa is 1.5 or more."""
    normal = b.binary("lshr", b.binary("add", bits, _int(_HALF)), _int(23))
    small = b.unary("zext", b.binary("icmp ugt", bits, _int(_LEAST), "i1"), "i32")
    code = b.select(b.binary("icmp ult", bits, _int(1 << 23), "i1"), small, normal)
    is_number = b.binary("icmp ult", b.binary("sub", bits, _int(1)), _int(_INFINITY), "i1")  # +inf rounds to NaN
    return b.select(is_number, code, _int(f.nan))
