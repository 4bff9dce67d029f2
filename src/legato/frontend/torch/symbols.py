"""Symbolic integers of PyTorch as dims: SymPy's expressions of shapes, and the functions that graphs apply to them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

import sympy
import torch

from legato.arith.expr import (
    Const,
    Expr,
    Var,
    add,
    const,
    eq,
    floordiv,
    floormod,
    ge,
    gt,
    land,
    le,
    lnot,
    lor,
    lt,
    max_,
    min_,
    mul,
    ne,
    select,
    sub,
)
from legato.base.dtype import bool_
from legato.base.errors import UnsupportedError
from legato.ir.types import Dim

__all__ = ["FUNCTIONS", "Symbols", "number"]


def number(d: Dim) -> int | Dim:
    """A literal dim as Python's integer."""
    return int(d.value) if isinstance(d, Const) else d


def _dim(value: int | Dim) -> Dim:
    return value if isinstance(value, Expr) else const(value)


def _with(function: Callable[[Dim, Dim], Dim]) -> Callable[..., int | Dim]:
    return lambda a, b: number(function(_dim(a), _dim(b)))


def _tested(function: Callable[[Dim, Dim], Dim]) -> Callable[..., bool | Dim]:
    def test(a: int | Dim, b: int | Dim) -> bool | Dim:
        found = function(_dim(a), _dim(b))
        return bool(found.value) if isinstance(found, Const) else found

    return test


def _joined(function: Callable[..., Dim]) -> Callable[..., bool | Dim]:
    def joined(*conditions: bool | Dim) -> bool | Dim:
        if not all(c.dtype.is_bool if isinstance(c, Expr) else isinstance(c, bool) for c in conditions):
            raise UnsupportedError(f"bits of the sizes {', '.join(map(str, conditions))}", hint=_STATIC)
        found = function(*(c if isinstance(c, Expr) else const(c, bool_) for c in conditions))
        return bool(found.value) if isinstance(found, Const) else found

    return joined


def _chosen(condition: bool | Dim, a: int | Dim, b: int | Dim) -> int | Dim:
    if isinstance(condition, Expr):
        return number(select(condition, _dim(a), _dim(b)))
    return a if condition else b


class Symbols:
    """The dims that stand for the symbols of a graph. `ranges`: bounds of symbols, as `range_constraints` has them."""

    def __init__(self, ranges: Mapping[Any, Any]) -> None:
        self._ranges = ranges
        self._dims: dict[sympy.Symbol, Var] = {}

    def dim(self, size: int | torch.SymInt) -> Dim:
        """The dim that a size of a fake tensor is."""
        return const(size) if isinstance(size, int) else self._of(sympy.sympify(size.node.expr))

    def var(self, symbol: sympy.Symbol) -> Var:
        """The dim variable of a symbol."""
        if symbol not in self._dims:
            bounds = self._ranges.get(symbol)
            lo, hi = (0, None) if bounds is None else (_bound(bounds.lower), _bound(bounds.upper))
            self._dims[symbol] = Var(str(symbol), lo=max(lo or 0, 0), hi=hi)
        return self._dims[symbol]

    def _of(self, e: Any) -> Dim:
        if e.is_Integer:
            return const(int(e))
        if e.is_Symbol:
            return self.var(e)
        if type(e).__name__ in _WHOLE:
            return self._whole(e)
        make = _SYMPY.get(type(e).__name__)
        if make is None:
            raise UnsupportedError(f"the size {e}", hint=_STATIC)
        first, *rest = (self._of(a) for a in e.args)
        for other in rest:
            first = make(first, other)
        return first

    def _whole(self, e: Any) -> Dim:
        """What is whole of an extent times a float, as resizing by a factor computes it. Few bits of the float are
        not 0, so that no product is rounded."""
        scale, extent = e.args[0].as_coeff_Mul()
        exact = Fraction(float(scale)) if scale.is_Float or scale.is_Rational else Fraction(-1)
        inner = extent.args[0] if type(extent).__name__ == "ToFloat" else None
        is_extent = inner is not None and (inner.is_nonnegative or type(inner).__name__ in _WHOLE)
        if not is_extent or exact < 0 or exact.denominator > _FINEST:
            raise UnsupportedError(f"the size {e}", hint=_STATIC)
        return floordiv(self._of(inner) * exact.numerator, const(exact.denominator))


def _bound(value: Any) -> int | None:
    """A bound of a range as an integer; None: there is none."""
    try:
        found = int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return found if abs(found) < 2**62 else None


def _power(base: Dim, exponent: Dim) -> Dim:
    if not isinstance(exponent, Const) or not 0 <= int(exponent.value) <= _MOST:
        raise UnsupportedError(f"the size {base} ** {exponent}", hint=_STATIC)
    found: Dim = const(1)
    for _ in range(int(exponent.value)):
        found = found * base
    return found


_WHOLE: Final = frozenset({"TruncToInt", "FloorToInt"})
_STATIC: Final = "give its dims as numbers: leave them out of dynamic_shapes"
_FINEST: Final = 2**20  # parts of 1 that a factor may have
_MOST: Final = 62  # exponents: a size of 2 or more to a higher one has no 64 bits

_SYMPY: Final[Mapping[str, Callable[[Dim, Dim], Dim]]] = {
    "Add": add, "Mul": mul, "Pow": _power, "PowByNatural": _power, "FloorDiv": floordiv, "CleanDiv": floordiv,
    "PythonMod": floormod, "Mod": floormod, "Max": max_, "Min": min_,
}  # fmt: skip

FUNCTIONS: Final[Mapping[Any, Callable[..., Any]]] = {
    operator.add: _with(add), operator.sub: _with(sub), operator.mul: _with(mul),
    operator.floordiv: _with(floordiv), operator.mod: _with(floormod), operator.pow: _with(_power),
    operator.lt: _tested(lt), operator.le: _tested(le), operator.gt: _tested(gt), operator.ge: _tested(ge),
    operator.eq: _tested(eq), operator.ne: _tested(ne),
    operator.and_: _joined(land), operator.or_: _joined(lor), torch.sym_not: _joined(lnot),
    torch.sym_ite: _chosen,
    operator.neg: lambda a: number(const(0) - _dim(a)),
    torch.sym_max: _with(max_), torch.sym_min: _with(min_), torch.sym_int: lambda a: a,
    math.floor: lambda a: a, math.ceil: lambda a: a, math.trunc: lambda a: a,
}  # fmt: skip
