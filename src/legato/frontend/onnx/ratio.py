"""Float tensors in which exporters compute shapes, as exact ratios of dims.

    size = Cast(Floor(Cast(Shape(x)) * 2.5))        an extent times a factor, through floats

The symbolic values of `infer` are of integers only. Here a small tensor of either kind is an array of ratios; the few
operators that such computations use act on it, and what comes back to integers is a dim again. Extents are below 2^24,
so the floats of the original are exact but for a factor's own rounding, which a nearby simple fraction undoes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from legato.arith.expr import Const, cdiv, const, mul
from legato.arith.linear import factors
from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.frontend.onnx.tensors import Array
from legato.ir.expr import Call, Expr, Tuple
from legato.ir.op import Op
from legato.ir.types import Dim, TensorType

__all__ = ["Ratio", "Ratios"]

_FEW = 64  # elements
_NEARBY = 1 << 20  # largest denominator of the fraction that a float stands for
_ONE: Dim = const(1)


@dataclass(frozen=True, slots=True)
class Ratio:
    """`num / den`; den > 0."""

    num: Dim
    den: Dim = _ONE

    @staticmethod
    def of(value: float) -> Ratio:
        """A number; finite."""
        fraction = Fraction(value).limit_denominator(_NEARBY)
        return Ratio(const(fraction.numerator), const(fraction.denominator))

    def __add__(self, other: Ratio) -> Ratio:
        return _reduced(self.num * other.den + other.num * self.den, self.den * other.den)

    def __sub__(self, other: Ratio) -> Ratio:
        return _reduced(self.num * other.den - other.num * self.den, self.den * other.den)

    def __mul__(self, other: Ratio) -> Ratio:
        return _reduced(self.num * other.num, self.den * other.den)

    def __truediv__(self, other: Ratio) -> Ratio | None:
        """None where the divisor may be negative or zero by a literal."""
        if isinstance(other.num, Const) and other.num.value <= 0:
            return None
        return self * Ratio(other.den, other.num)

    def floor(self) -> Dim:
        """Rounded down."""
        return simplify(self.num // self.den)

    def ceil(self) -> Dim:
        """Rounded up."""
        return simplify(cdiv(self.num, self.den))

    def number(self) -> float | None:
        """As a float, where no dim is in it."""
        if isinstance(self.num, Const) and isinstance(self.den, Const):
            return float(Fraction(int(self.num.value), int(self.den.value)))
        return None


def _reduced(num: Dim, den: Dim) -> Ratio:
    """`num / den` without the factors that both have."""
    above, below = factors(simplify(num)), factors(simplify(den))
    for factor in list(below):
        if factor in above and not isinstance(factor, Const):
            above.remove(factor)
            below.remove(factor)
    return Ratio(simplify(reduce(mul, above, _ONE)), simplify(reduce(mul, below, _ONE)))


def _floored(x: Ratio) -> Ratio:
    return Ratio(x.floor())


def _ceiled(x: Ratio) -> Ratio:
    return Ratio(x.ceil())


def _divided(a: Ratio, b: Ratio) -> Ratio | None:
    return a / b


_ELEMENTWISE: Mapping[str, Callable[..., Ratio | None]] = {
    "add": Ratio.__add__,
    "subtract": Ratio.__sub__,
    "multiply": Ratio.__mul__,
    "divide": _divided,
    "floor": _floored,
    "ceil": _ceiled,
}
# Operators whose reference moves elements without looking at them.
_MOVING = frozenset({"concatenate", "reshape", "squeeze", "expand_dims", "strided_slice", "stack", "transpose"})


class Ratios:
    """The values of small tensors as arrays of ratios, found on demand and remembered.

    `value_of` gives the symbolic value of an integer tensor, `array_of` the elements of a known one.
    """

    def __init__(
        self, value_of: Callable[[Expr], tuple[Dim, ...] | None], array_of: Callable[[Expr], Array | None]
    ) -> None:
        self._value_of, self._array_of = value_of, array_of
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
            self._known[id(node)] = (node, self._combined(node) if leaf is None else leaf)
        found = self._known[id(x)][1]
        return found if isinstance(found, np.ndarray) else None

    def _leaf(self, node: Expr) -> Array | None:
        if not isinstance(node.ty, TensorType) or not _is_small(node.ty):
            return None
        value = self._value_of(node)
        if value is not None:
            return _objects([Ratio(d) for d in value], node.ty)
        array = self._array_of(node)
        if array is None or not np.all(np.isfinite(array)):
            return None
        return _objects([Ratio.of(float(v)) for v in array.ravel()], node.ty)

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
        if name not in _ELEMENTWISE or (name == "divide" and not node.ty.dtype.is_float):
            return None
        columns = np.broadcast_arrays(*args)
        found = [_ELEMENTWISE[name](*row) for row in zip(*(c.ravel() for c in columns), strict=True)]
        return None if any(r is None for r in found) else _objects([r for r in found if r is not None], node.ty)


def _cast(x: Array, ty: TensorType) -> Array | None:
    """Towards an integer dtype, truncation: that of an extent, which is never negative."""
    if ty.dtype.is_float:
        return x
    return _objects([_floored(r) for r in x.ravel()], ty) if ty.dtype.is_int else None


def _objects(found: Sequence[Ratio], ty: TensorType) -> Array:
    array = np.empty(len(found), object)
    array[:] = found
    return np.reshape(array, ty.static_shape())


def _operands(node: Expr) -> Sequence[Expr]:
    if isinstance(node, Tuple):
        return node.fields
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return ()
    known = node.op.name in _ELEMENTWISE or node.op.name in _MOVING or node.op.name == "cast"
    return node.args if known and isinstance(node.ty, TensorType) and _is_small(node.ty) else ()


def _is_small(ty: TensorType) -> bool:
    return ty.is_static and math.prod(ty.static_shape()) <= _FEW
