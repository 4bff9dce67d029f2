"""Float tensors in which exporters compute shapes, as ratios of dims, rounded where floats are.

    size = Cast(Floor(Cast(Shape(x)) * 2.5))        an extent times a factor, through floats

The symbolic values of `infer` are of integers only. Here a small tensor of either kind is an array of ratios; the few
operators that such computations use act on it, and what comes back to integers is a dim again: the one that the floats
of the original give (`rounding`), for extents of up to 2^20. What would be rounded twice is not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from legato.arith.expr import Binary, Const, cdiv, const, eq, ge, land, le, mul, select
from legato.arith.expr import Op as ArithOp
from legato.arith.fraction import nearest_float
from legato.arith.linear import content, factors, gather
from legato.arith.prove import prove
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.frontend.onnx.rounding import EXTENT, Floats, ceiled, floored
from legato.frontend.onnx.tensors import Array
from legato.ir.expr import Call, Expr, Tuple
from legato.ir.op import Op
from legato.ir.types import Dim, TensorType

__all__ = ["Ratio", "Ratios", "reduced"]

_FEW = 64  # elements
_ONE: Dim = const(1)
_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}  # significant bits
_OCTAVES = range(-4, 8)  # of quotients of extents


@dataclass(frozen=True, slots=True)
class Ratio:
    """`num / den`, or, if `rounded`, the nearest float to it. den > 0; `bits` are enough for the value of `num`.

    `precision` are the significant bits of the float; 0 for an integer.
    """

    num: Dim
    den: Dim = _ONE
    bits: int = EXTENT.bit_length() - 1
    rounded: bool = False
    precision: int = 24

    @staticmethod
    def of(value: float) -> Ratio:
        """A number; finite."""
        return _literal(Fraction(value), 24)

    def times(self, other: Ratio, precision: int = 24) -> Ratio | None:
        """The product, rounded; None where that is not known."""
        if self.rounded and _is_power_of_two(other):
            return Ratio(*reduced(self.num * other.num, self.den * other.den), self.bits, True, precision)
        if self.rounded or other.rounded:
            return None if self.rounded or not _is_power_of_two(self) else other.times(self, precision)
        return _made(self.num * other.num, self.den * other.den, self.bits + other.bits, precision)

    def whole(self) -> Dim | None:
        """As an integer, if it is one."""
        return self.num if self.den is _ONE and not self.rounded else None

    def floor(self) -> Dim | None:
        """Rounded down; None where that is not known."""
        return self._whole(floored, lambda a, b: a // b, ceiled, cdiv)

    def ceil(self) -> Dim | None:
        """Rounded up; None where that is not known."""
        return self._whole(ceiled, cdiv, floored, lambda a, b: a // b)

    def truncated(self) -> Dim | None:
        """Rounded towards zero; None where that is not known."""
        return self._whole(floored, lambda a, b: a // b, floored, lambda a, b: a // b)

    def _whole(self, rounded: _Rounded, plain: _Plain, below_rounded: _Rounded, below_plain: _Plain) -> Dim | None:
        """As an integer: `rounded` or `plain` say how where this is positive, the others of -x where x is negative."""
        above = None if prove(le(self.num, 0)) else self._positive(self.num, rounded, plain)
        below = None if prove(ge(self.num, 0)) else self._positive(simplify(-self.num), below_rounded, below_plain)
        if prove(ge(self.num, 0)) or below is None:
            return above
        return -below if prove(le(self.num, 0)) else None if above is None else select(ge(self.num, 0), above, -below)

    def _positive(self, num: Dim, rounded: _Rounded, plain: _Plain) -> Dim | None:
        terms, total = gather(num)
        common = math.gcd(content(terms), total)
        known = isinstance(self.den, Const)
        if not self.rounded or not known or not common or (common == 1 and self.bits <= self.precision):
            return simplify(plain(num, self.den))  # no quotient of integers that are floats is rounded up to the next
        assert isinstance(self.den, Const)
        floats: Floats = "float64" if self.precision == _PRECISION["float64"] else "float32"
        is_extent = self.bits - common.bit_length() < EXTENT.bit_length()
        return rounded(simplify(num // const(common)), common, int(self.den.value), floats, is_extent)

    def round(self) -> Dim | None:
        """The nearest integer, the even one of two; None where that is not known."""
        if self.rounded:
            return None
        up = (self.num * 2 + self.den) // (self.den * 2)
        halfway = land(eq((self.num * 2 + self.den) % (self.den * 2), 0), eq(up % const(2), 1))
        return simplify(up - select(halfway, _ONE, const(0)))

    def number(self) -> float | None:
        """As a float, where no dim is in it."""
        found = _number(self)
        return None if found is None else float(found)


_Rounded = Callable[[Dim, int, int, Floats, bool], Dim | None]
_Plain = Callable[[Dim, Dim], Dim]


def _literal(value: Fraction, precision: int) -> Ratio:
    """A number, rounded."""
    value = nearest_float(value, precision) if precision else value
    return Ratio(const(value.numerator), const(value.denominator), abs(value.numerator).bit_length(), False, precision)


def _number(x: Ratio) -> Fraction | None:
    if isinstance(x.num, Const) and isinstance(x.den, Const):
        return Fraction(int(x.num.value), int(x.den.value))
    return None


def _is_power_of_two(x: Ratio) -> bool:
    value = _number(x)
    return value is not None and value > 0 and all(n & (n - 1) == 0 for n in (value.numerator, value.denominator))


def _made(num: Dim, den: Dim, bits: int, precision: int) -> Ratio | None:
    """The float of num / den, of which `bits` are enough for `num`."""
    num, den = reduced(num, den)
    if isinstance(num, Const) and isinstance(den, Const):
        return _literal(Fraction(int(num.value), int(den.value)), precision)
    if precision and precision < _PRECISION["float32"]:
        return None  # not even extents are exact
    if isinstance(den, Const) and int(den.value) & (int(den.value) - 1) == 0 and bits <= precision:
        return Ratio(num, den, bits, False, precision)
    return _pinned(num, den, bits, precision) or Ratio(num, den, bits, True, precision)


def _pinned(num: Dim, den: Dim, bits: int, precision: int) -> Ratio | None:
    """The float32 of num / den, exactly, where the power of two below it is known: then so is its last bit."""
    if isinstance(den, Const) or precision != _PRECISION["float32"] or bits > precision:
        return None
    for octave in _OCTAVES:
        if _is_at_least(num, den, octave) and _is_at_most(num, den, octave + 1):
            unit = precision - 1 - octave  # halves never occur: they would need another bit
            return Ratio(simplify((num * (2 << unit) + den) // (den * 2)), const(1 << unit), precision)
    return None


def _is_at_least(num: Dim, den: Dim, octave: int) -> bool:
    """Whether num / den is at least 2^octave, for certain."""
    if octave < 0:
        return prove(le(den, num * (1 << -octave)))
    a, k = _floor_of(num)
    return prove(le(den * (k << octave), a))


def _is_at_most(num: Dim, den: Dim, octave: int) -> bool:
    """Whether num / den is at most 2^octave, for certain."""
    if octave < 0:
        return prove(le(num * (1 << -octave), den))
    a, k = _floor_of(num)
    return prove(le(a, den * (k << octave) + (k - 1)))


def _floor_of(d: Dim) -> tuple[Dim, int]:
    """(a, k) with d = a // k; k is a literal."""
    if isinstance(d, Binary) and d.op is ArithOp.FLOORDIV and isinstance(d.b, Const) and d.b.value > 0:
        return d.a, int(d.b.value)
    return d, 1


def reduced(num: Dim, den: Dim) -> tuple[Dim, Dim]:
    """`num` and `den` without the factors that both have."""
    above, below = factors(simplify(num)), factors(simplify(den))
    for factor in list(below):
        if factor in above and not isinstance(factor, Const):
            above.remove(factor)
            below.remove(factor)
    num, den = (simplify(reduce(mul, parts, _ONE)) for parts in (above, below))
    terms, total = gather(num)
    common = math.gcd(content(terms), total, int(den.value)) if isinstance(den, Const) else 1
    return (num, den) if common == 1 else (simplify(num // const(common)), simplify(den // const(common)))


def _sum(a: Ratio, b: Ratio, precision: int) -> Ratio | None:
    if a.rounded or b.rounded:
        return None
    bits = max(_scaled_bits(a, b.den), _scaled_bits(b, a.den)) + 1
    return _made(a.num * b.den + b.num * a.den, a.den * b.den, bits, precision)


def _scaled_bits(a: Ratio, factor: Dim) -> int:
    return a.bits + (int(factor.value).bit_length() - 1 if isinstance(factor, Const) else a.bits)


def _difference(a: Ratio, b: Ratio, precision: int) -> Ratio | None:
    return _sum(a, _negated(b), precision)


def _negated(x: Ratio) -> Ratio:
    return Ratio(simplify(-x.num), x.den, x.bits, x.rounded, x.precision)


def _quotient(a: Ratio, b: Ratio, precision: int) -> Ratio | None:
    """None where the divisor may be negative or, by a literal, zero."""
    value = _number(b)
    if b.rounded or not prove(ge(b.num, 0)) or value == 0:
        return None
    if a.rounded:
        return a.times(Ratio(b.den, b.num), precision) if _is_power_of_two(b) else None
    bits = _scaled_bits(a, b.den) if isinstance(b.den, Const) else a.bits + b.bits
    return _made(a.num * b.den, a.den * b.num, bits, precision)


def _as_ratio(d: Dim | None, precision: int) -> Ratio | None:
    """An integer; a dim is an extent, or not larger than one."""
    if d is None or not isinstance(d, Const):
        return None if d is None else Ratio(d, precision=precision)
    return Ratio(d, bits=int(d.value).bit_length(), precision=precision)


_ELEMENTWISE: Mapping[str, Callable[..., Ratio | None]] = {
    "add": _sum,
    "subtract": _difference,
    "multiply": Ratio.times,
    "divide": _quotient,
    "floor": lambda x, precision: _as_ratio(x.floor(), precision),
    "ceil": lambda x, precision: _as_ratio(x.ceil(), precision),
    "round": lambda x, precision: _as_ratio(x.round(), precision),
    "negative": lambda x, precision: _negated(x),
}
# Operators whose reference moves elements without looking at them.
_MOVING = frozenset({"concatenate", "reshape", "squeeze", "expand_dims", "strided_slice", "stack", "transpose"})


class Ratios:
    """The values of small tensors as arrays of ratios, found on demand and remembered.

    `value_of` gives the symbolic value of an integer tensor, `array_of` the elements of a known one. `unknown` gives
    symbols for the elements of an integer tensor that only the data decides; without it, these are unknown.
    """

    def __init__(
        self,
        value_of: Callable[[Expr], tuple[Dim, ...] | None],
        array_of: Callable[[Expr], Array | None],
        unknown: Callable[[Expr, int], Sequence[Dim]] | None = None,
    ) -> None:
        self._value_of, self._array_of, self._unknown = value_of, array_of, unknown
        self._known: dict[int, tuple[Expr, Any]] = {}  # holds the expression so that its id stays its own

    def of(self, x: Expr) -> Array | None:
        """The elements of `x` as an object array of ratios, or None; iterative."""
        stack = [x]
        while stack:
            node = stack[-1]
            if id(node) in self._known:
                stack.pop()
                continue
            leaf = self._leaf(node)
            waiting = [a for a in _operands(node) if id(a) not in self._known] if leaf is None else []
            if waiting:
                stack += waiting
                continue
            stack.pop()
            found = self._combined(node) if leaf is None else leaf
            self._known[id(node)] = (node, self._symbols(node) if found is None else found)
        whole = self._known[id(x)][1]
        return whole if isinstance(whole, np.ndarray) else None

    def _leaf(self, node: Expr) -> Array | None:
        if not isinstance(node.ty, TensorType) or not _is_small(node.ty):
            return None
        value = self._value_of(node)
        if value is not None:
            return _objects([_as_ratio(d, 0) for d in value], node.ty)
        array = self._array_of(node)
        if array is None or not np.all(np.isfinite(array)):
            return None
        precision = _precision(node.ty.dtype)
        return _objects([_literal(Fraction(v), precision) for v in array.ravel().astype(object)], node.ty)

    def _symbols(self, node: Expr) -> Array | None:
        ty = node.ty
        if self._unknown is None or not isinstance(ty, TensorType) or not _is_small(ty) or not ty.dtype.is_int:
            return None
        return _objects([_as_ratio(d, 0) for d in self._unknown(node, math.prod(ty.static_shape()))], ty)

    def _combined(self, node: Expr) -> Any:
        args = [self._known[id(a)][1] for a in _operands(node)]
        if not args or any(a is None for a in args):
            return None
        if isinstance(node, Tuple):
            return tuple(args)
        assert isinstance(node, Call)
        assert isinstance(node.op, Op)
        assert isinstance(node.ty, TensorType)
        name = node.op.name
        if name == "cast":
            return _cast(args[0], node.ty)
        if name in _MOVING:
            return np.asarray(node.op.reference(*args, *node.op.tail(node.attrs)))
        if _is_of_integers(node):
            return _by_value_rule(node, node.op, args)
        if name not in _ELEMENTWISE or (name == "divide" and not node.ty.dtype.is_float):
            return None
        columns = np.broadcast_arrays(*args)
        rows, precision = zip(*(c.ravel() for c in columns), strict=True), _precision(node.ty.dtype)
        return _objects([_ELEMENTWISE[name](*row, precision) for row in rows], node.ty)


def _precision(dtype: DType) -> int:
    return _PRECISION.get(dtype.name, 0)


def _cast(x: Array, ty: TensorType) -> Array | None:
    """Towards an integer dtype, truncation."""
    if ty.dtype.is_int:
        return _objects([_as_ratio(r.truncated(), 0) for r in x.ravel()], ty)
    if not ty.dtype.is_float:
        return None
    return _objects([_converted(r, _precision(ty.dtype)) for r in x.ravel()], ty)


def _converted(x: Ratio, precision: int) -> Ratio | None:
    if x.precision == precision:
        return x
    return None if x.rounded else _made(x.num, x.den, x.bits, precision)


def _objects(found: Sequence[Ratio | None], ty: TensorType) -> Array | None:
    """As an array of the shape of `ty`; None where one is not known."""
    if any(r is None for r in found):
        return None
    array = np.empty(len(found), object)
    array[:] = found
    return np.reshape(array, ty.static_shape())


def _operands(node: Expr) -> Sequence[Expr]:
    if isinstance(node, Tuple):
        return node.fields
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return ()
    known = node.op.name in _ELEMENTWISE or node.op.name in _MOVING or node.op.name == "cast" or _is_of_integers(node)
    return node.args if known and isinstance(node.ty, TensorType) and _is_small(node.ty) else ()


def _is_of_integers(node: Call) -> bool:
    """Whether the symbolic value of `node` follows from those of its arguments, all of them integers or bools."""
    types = [node.ty, *(a.ty for a in node.args)]
    plain = all(isinstance(ty, TensorType) and not ty.dtype.is_float for ty in types)
    return plain and isinstance(node.op, Op) and node.op.value is not None


def _by_value_rule(node: Call, op: Op, args: Sequence[Array]) -> Array | None:
    assert op.value is not None
    assert isinstance(node.ty, TensorType)
    values = [tuple(r.num for r in array.ravel()) for array in args]
    found = op.value(*values, *op.tail(node.attrs), *(a.ty for a in node.args))
    return None if found is None else _objects([_as_ratio(simplify(d), 0) for d in found], node.ty)


def _is_small(ty: TensorType) -> bool:
    return ty.is_static and math.prod(ty.static_shape()) <= _FEW
