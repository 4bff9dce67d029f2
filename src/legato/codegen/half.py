"""16-bit floats: float in registers, rounded to the narrow type after every operation.

One rounding of a float32 result is the correctly rounded 16-bit result for + − · / and sqrt (24 ≥ 2·11 + 2). Without
F16C conversions to float16 are integer arithmetic: nothing here may become a call of a library function. Conversions to
bfloat16 always are, because AVX512-BF16's (vcvtneps2bf16) makes subnormal numbers 0.
"""

from __future__ import annotations

from legato.codegen.builder import Builder
from legato.codegen.value import Value, float_text

__all__ = ["narrow_to_odd", "pack", "round_mantissa", "round_to", "unpack"]


def _int(value: int, ty: str = "i32") -> Value:
    return Value(str(value), ty, 1, 0, value)


def _float(value: float) -> Value:
    return Value(float_text(value, "float"), "float", 1, 0, value)


def round_to(b: Builder, v: Value, name: str, *, f16c: bool) -> Value:
    """The float `v` rounded to nearest even among the values of float16 or bfloat16 (`name`)."""
    if name == "bfloat16":
        return _round_bfloat(b, v)
    if f16c:
        return b.unary("fpext", b.unary("fptrunc", v, "half"), "float")
    return _round_half(b, v)


def pack(b: Builder, v: Value, name: str, *, f16c: bool) -> Value:
    """The 16 bits (i16) of a float that is a value of the narrow type."""
    if name == "bfloat16":
        return b.unary("trunc", b.binary("lshr", _bits(b, v), _int(16)), "i16")
    if f16c:
        return b.unary("bitcast", b.unary("fptrunc", v, "half"), "i16")
    return _pack_half(b, v)


def unpack(b: Builder, v: Value, name: str, *, f16c: bool) -> Value:
    """The float that the 16 bits `v` (i16) stand for."""
    if name == "bfloat16":
        return _as_float(b, b.binary("shl", b.unary("zext", v, "i32"), _int(16)))
    if f16c:
        return b.unary("fpext", b.unary("bitcast", v, "half"), "float")
    return _unpack_half(b, v)


def _bits(b: Builder, v: Value) -> Value:
    return b.unary("bitcast", v, "i32")


def _as_float(b: Builder, v: Value) -> Value:
    return b.unary("bitcast", v, "float")


def _is_nan(b: Builder, v: Value) -> Value:
    return b.binary("fcmp uno", v, v, "i1")


def round_mantissa(b: Builder, bits: Value, dropped: int) -> Value:
    """The bits of a float with the last `dropped` mantissa bits rounded away, half to even."""
    odd = b.binary("and", b.binary("lshr", bits, _int(dropped)), _int(1))
    up = b.binary("add", b.binary("add", bits, _int((1 << (dropped - 1)) - 1)), odd)
    return b.binary("and", up, _int(-(1 << dropped)))


def _round_bfloat(b: Builder, v: Value) -> Value:
    rounded = _as_float(b, round_mantissa(b, _bits(b, v), 16))
    return b.select(_is_nan(b, v), _float(float("nan")), rounded)


def _round_half(b: Builder, v: Value) -> Value:
    """Normal results by rounding the mantissa, subnormal ones by adding a constant whose last place is 2^-24."""
    sign = b.binary("and", _bits(b, v), _int(-(1 << 31)))
    magnitude = b.binary("and", _bits(b, v), _int((1 << 31) - 1))
    normal = _as_float(b, round_mantissa(b, magnitude, 13))
    small = _as_float(b, magnitude)
    magic = _float(0.5)
    subnormal = b.binary("fsub", b.binary("fadd", small, magic), magic)
    rounded = b.select(b.binary("fcmp olt", small, _float(2.0**-14), "i1"), subnormal, normal)
    rounded = b.select(b.binary("fcmp oge", rounded, _float(65536.0), "i1"), _float(float("inf")), rounded)
    rounded = b.select(_is_nan(b, v), _float(float("nan")), rounded)
    return _as_float(b, b.binary("or", _bits(b, rounded), sign))


def _pack_half(b: Builder, v: Value) -> Value:
    bits = _bits(b, v)
    sign = b.binary("and", b.binary("lshr", bits, _int(16)), _int(0x8000))
    magnitude = b.binary("and", bits, _int((1 << 31) - 1))
    # Subnormals become normal numbers of the scaled exponent range: 2^-24 is bit 0.
    scaled = b.binary("fmul", _as_float(b, magnitude), _float(2.0**24))
    subnormal = b.unary(
        "fptosi", b.select(b.binary("fcmp olt", scaled, _float(1024.0), "i1"), scaled, _float(0.0)), "i32"
    )
    normal = b.binary("lshr", b.binary("sub", magnitude, _int(112 << 23)), _int(13))
    small = b.binary("icmp ult", magnitude, _int(113 << 23), "i1")
    narrow = b.select(small, subnormal, normal)
    special = b.select(b.binary("icmp ugt", magnitude, _int(255 << 23), "i1"), _int(0x7E00), _int(0x7C00))
    narrow = b.select(b.binary("icmp uge", magnitude, _int(255 << 23), "i1"), special, narrow)
    return b.unary("trunc", b.binary("or", narrow, sign), "i16")


def _unpack_half(b: Builder, v: Value) -> Value:
    wide = b.unary("zext", v, "i32")
    sign = b.binary("shl", b.binary("and", wide, _int(0x8000)), _int(16))
    magnitude = b.binary("and", wide, _int(0x7FFF))
    # Of a float with these bits the exponent is too small by 112; that of Inf and NaN becomes the greatest.
    bits = b.binary("add", b.binary("shl", magnitude, _int(13)), _int(112 << 23))
    special = b.binary("icmp uge", magnitude, _int(0x7C00), "i1")
    bits = b.select(special, b.binary("or", bits, _int(255 << 23)), bits)
    small = b.binary("icmp ult", magnitude, _int(0x0400), "i1")
    subnormal = b.binary("fmul", b.unary("sitofp", magnitude, "float"), _float(2.0**-24))
    return _as_float(b, b.binary("or", b.select(small, _bits(b, subnormal), bits), sign))


def narrow_to_odd(b: Builder, v: Value) -> Value:
    """The double `v` as a float rounded to odd, so that a second rounding to 16 bits is a correct single one."""
    near = b.unary("fptrunc", v, "float")
    back = b.unary("fpext", near, "double")
    size, exact = b.call("llvm.fabs", v), b.call("llvm.fabs", back)
    over = b.unary("zext", b.binary("fcmp ogt", exact, size, "i1"), "i32")
    inexact = b.unary("zext", b.binary("fcmp one", back, v, "i1"), "i32")
    bits = b.binary("or", b.binary("sub", _bits(b, near), over), inexact)
    return _as_float(b, bits)
