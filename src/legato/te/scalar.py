"""Scalars that whoever writes a tensor expression works with: axes, elements, and what Python's operators make of them.

    te.compute((n, m), lambda i, j: te.if_then_else(i == j, A[i, j] * 2, 0.0))

Operands of different dtypes meet as in scripts (`tir.scalars`). A Scalar is a variable, so that it can stand in any
scalar expression, and a name for `value`: `plain` puts values in place of them. None is left in a stage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from legato.arith.expr import Expr, Var
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import TypeCheckError
from legato.base.node import transform
from legato.te.tensor import Reduction
from legato.tir import scalars

__all__ = ["ReduceAxis", "ReduceVar", "Reduced", "Scalar", "lifted", "plain"]


class Scalar(Var):
    """A name for the scalar expression `value`."""

    __slots__ = ("value",)
    value: Expr

    def __init__(self, value: Expr, name: str = "s") -> None:
        super().__init__(name, value.dtype)
        self.value = value

    def astype(self, dtype: DType | str) -> Scalar:
        """This scalar in another dtype."""
        return Scalar(scalars.as_type(plain(self), dt.dtype(dtype)))

    def __bool__(self) -> NoReturn:
        raise TypeCheckError("whether a scalar is true is known when the program runs",
                             hint="te.if_then_else(condition, a, b), te.all(…), te.any(…)")  # fmt: skip

    __hash__ = Var.__hash__

    def __eq__(self, other: object) -> Scalar:  # type: ignore[override]  # as an expression
        return _binary("==", self, other)

    def __ne__(self, other: object) -> Scalar:  # type: ignore[override]
        return _binary("!=", self, other)

    def __lt__(self, other: Any) -> Scalar:
        return _binary("<", self, other)

    def __le__(self, other: Any) -> Scalar:
        return _binary("<=", self, other)

    def __gt__(self, other: Any) -> Scalar:
        return _binary(">", self, other)

    def __ge__(self, other: Any) -> Scalar:
        return _binary(">=", self, other)

    def __add__(self, other: Any) -> Scalar:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Scalar:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> Scalar:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Scalar:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> Scalar:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Scalar:
        return _binary("*", other, self)

    def __truediv__(self, other: Any) -> Scalar:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Scalar:
        return _binary("/", other, self)

    def __floordiv__(self, other: Any) -> Scalar:
        return _binary("//", self, other)

    def __rfloordiv__(self, other: Any) -> Scalar:
        return _binary("//", other, self)

    def __mod__(self, other: Any) -> Scalar:
        return _binary("%", self, other)

    def __rmod__(self, other: Any) -> Scalar:
        return _binary("%", other, self)

    def __pow__(self, other: Any) -> Scalar:
        return _binary("**", self, other)

    def __lshift__(self, other: Any) -> Scalar:
        return _binary("<<", self, other)

    def __rshift__(self, other: Any) -> Scalar:
        return _binary(">>", self, other)

    def __and__(self, other: Any) -> Scalar:
        return _binary("&", self, other)

    def __or__(self, other: Any) -> Scalar:
        return _binary("|", self, other)

    def __xor__(self, other: Any) -> Scalar:
        return _binary("^", self, other)

    def __invert__(self) -> Scalar:
        return Scalar(scalars.unary("~", plain(self)))

    def __neg__(self) -> Scalar:
        return Scalar(scalars.negated(plain(self)))


class ReduceVar(Var):
    """The variable of a ReduceAxis: in place of it a reduction over the axis has one of its own."""

    __slots__ = ()


class ReduceAxis(Scalar):
    """An axis that a reduction runs over: `var` from 0 up to `extent`, seen as `value`."""

    __slots__ = ("extent", "var")
    var: ReduceVar
    extent: Expr

    def __init__(self, name: str, begin: Expr, extent: Expr) -> None:
        self.var, self.extent = ReduceVar(name, lo=0), extent
        super().__init__(self.var + begin, name)


class Reduced(Scalar):
    """The `reduction` of `value`: the whole of a compute."""

    __slots__ = ("reduction",)
    reduction: Reduction

    def __init__(self, value: Expr, reduction: Reduction) -> None:
        super().__init__(value, reduction.combiner)
        self.reduction = reduction


def plain(value: Any) -> Any:
    """`value`, where it is an expression, with values in place of Scalars.

    TypeCheckError for a reduction inside: it is a compute of its own.
    """
    return transform(value, _value) if isinstance(value, Expr) else value


def _value(node: Expr) -> Expr | None:
    if isinstance(node, Reduced):
        raise TypeCheckError(f"a {node.name} inside of an expression", hint="give it a te.compute of its own")
    return node.value if isinstance(node, Scalar) else None


def _binary(op: str, a: Any, b: Any) -> Scalar:
    return Scalar(scalars.binary(op, plain(a), plain(b)))


def lifted(function: Callable[..., Expr]) -> Callable[..., Scalar]:
    """A function of scalar expressions as one of Scalars, plain expressions and numbers."""
    return lambda *args: Scalar(function(*(scalars.as_scalar(plain(a)) for a in args)))
