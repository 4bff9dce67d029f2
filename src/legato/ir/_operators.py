"""What Python's operators mean on expressions: each is a call through the one hook that `ops` sets, see `ir.sugar`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from legato.base import dtype as dt
from legato.base.immutable import Immutable
from legato.ir import sugar

if TYPE_CHECKING:
    from legato.ir.expr import Expr

__all__ = ["Operators"]


class Operators(Immutable):
    """The operators of `expr.Expr`, which has no other base."""

    __slots__ = ()

    def astype(self, dtype: dt.DType | str) -> Expr:
        """This tensor with elements of `dtype`."""
        return sugar.apply("cast", self, dtype=dt.dtype(dtype))

    def __add__(self, other: Any) -> Expr:
        return sugar.apply("add", self, other)

    def __radd__(self, other: Any) -> Expr:
        return sugar.apply("add", other, self)

    def __sub__(self, other: Any) -> Expr:
        return sugar.apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Expr:
        return sugar.apply("subtract", other, self)

    def __mul__(self, other: Any) -> Expr:
        return sugar.apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Expr:
        return sugar.apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Expr:
        return sugar.apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return sugar.apply("divide", other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return sugar.apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return sugar.apply("floor_divide", other, self)

    def __mod__(self, other: Any) -> Expr:
        return sugar.apply("mod", self, other)

    def __rmod__(self, other: Any) -> Expr:
        return sugar.apply("mod", other, self)

    def __pow__(self, other: Any) -> Expr:
        return sugar.apply("power", self, other)

    def __rpow__(self, other: Any) -> Expr:
        return sugar.apply("power", other, self)

    def __matmul__(self, other: Any) -> Expr:
        return sugar.apply("matmul", self, other)

    def __neg__(self) -> Expr:
        return sugar.apply("negative", self)

    def __lt__(self, other: Any) -> Expr:
        return sugar.apply("less", self, other)

    def __le__(self, other: Any) -> Expr:
        return sugar.apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Expr:
        return sugar.apply("greater", self, other)

    def __ge__(self, other: Any) -> Expr:
        return sugar.apply("greater_equal", self, other)

    def __call__(self, *args: Expr, **attrs: Any) -> Expr:
        return sugar.apply("", self, *args, **attrs)
