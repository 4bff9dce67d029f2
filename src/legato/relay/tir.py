"""What programs about the language took from `tvm.tir`: dims and layouts, under `relay.tir`.

`tir.Var("n", "int32")` is a dim, as `relay.ShapeVar("n")` is. (The compiler's loop programs are `legato.tir`, another
package.)
"""

from __future__ import annotations

from legato.arith.expr import Const, const, fresh
from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.ir import layout as ir_layout
from legato.relay._names import Named
from legato.relay.ty import Any

__all__ = ["Any", "IntImm", "Layout", "SizeVar", "Var", "layout"]


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


@dataclass(frozen=True, slots=True)
class Layout:
    """`layout("NCHW16c")`: the names of a tensor's dims; "" is not defined."""

    name: str

    def __post_init__(self) -> None:
        if self.name:
            ir_layout.layout(self.name)

    def __str__(self) -> str:
        return self.name

    def __len__(self) -> int:
        return len(self._dims)

    def __contains__(self, axis: str) -> bool:
        return axis in [letter.lower() if size else letter for letter, size in self._dims]

    def __getitem__(self, index: int) -> str:
        """The axis of a dim: a capital, or the small letter of a block."""
        letter, size = self._dims[index]
        return letter.lower() if size else letter

    @property
    def _dims(self) -> tuple[tuple[str, int], ...]:
        return ir_layout.layout(self.name).dims if self.name else ()

    def defined(self) -> bool:
        """Whether it names any dims."""
        return bool(self.name)

    def index_of(self, axis: str) -> int:
        """The dim of an axis, or of its block; -1 where there is none."""
        return [self[n] for n in range(len(self))].index(axis) if axis in self else -1

    def factor_of(self, axis: str) -> int:
        """The size of the blocks of an axis; -1 where it has none."""
        size = ir_layout.layout(self.name).block(axis.upper()) if self.name else 1
        return size if size > 1 else -1


def layout(layout_str: str) -> Layout:
    """The layout that a text names; TypeCheckError where it names none."""
    return Layout(layout_str)
