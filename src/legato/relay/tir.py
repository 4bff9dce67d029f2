"""What programs about the language took from `tvm.tir`: dims, under `relay.tir`.

`tir.Var("n", "int32")` is a dim, as `relay.ShapeVar("n")` is. (The compiler's loop programs are `legato.tir`, another
package.)
"""

from __future__ import annotations

from legato.arith.expr import Const, const, fresh
from legato.arith.expr import Var as DimVar
from legato.base.errors import TypeCheckError
from legato.relay._names import Named
from legato.relay.ty import Any

__all__ = ["Any", "IntImm", "SizeVar", "Var"]


class Var(DimVar, metaclass=Named):
    """`Var(name, dtype="int32")`: a dim variable, an integer from 0 on. TypeCheckError for another dtype."""

    @staticmethod
    def build(name: str, dtype: str = "int32") -> DimVar:
        _require_integer(name, dtype)
        return fresh(name)


class IntImm(Const, metaclass=Named):
    """`IntImm(dtype, value)`: a number as a dim."""

    @staticmethod
    def build(dtype: str, value: int) -> Const:
        _require_integer(str(value), dtype)
        return const(int(value))


SizeVar = Var


def _require_integer(name: str, dtype: str) -> None:
    if dtype not in ("int32", "int64"):
        raise TypeCheckError(f"dim {name} of dtype {dtype}", hint="dims are integers: int32 or int64")
