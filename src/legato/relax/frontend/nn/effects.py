"""State that methods keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.arith.expr import fresh
from legato.base import dtype as dt
from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.ir.expr import Expr, Var
from legato.ir.types import tensor_type
from legato.relax import op
from legato.relax.block_builder import BlockBuilder
from legato.relax.frontend.nn.parts import Effect
from legato.relax.frontend.nn.scope import as_shape, as_shape_dim, current
from legato.relax.frontend.nn.tensor import Tensor, get_default_dtype

__all__ = ["Effect", "IOEffect", "KVCache"]


class IOEffect(Effect):
    """The state of what programs print: there is none."""

    def __init__(self) -> None:
        raise UnsupportedError("there is no nn.IOEffect: printing needs no state", hint="export_tvm(spec, debug=True)")


class KVCache(Effect):
    """Rows of one shape, to which methods append: a tensor (rows, *unit_shape), which is empty at first.

    It grows as it must, and is copied when it does; `init_seq_len` reserves nothing.
    """

    def __init__(self, init_seq_len: int, unit_shape: Sequence[int], dtype: str | None = None) -> None:
        self.init_seq_len, self.unit_shape = init_seq_len, as_shape(unit_shape)
        self.dtype = dtype or get_default_dtype()
        self._state: Expr | None = None

    def emit_init(self, name_hint: str, builder: BlockBuilder) -> list[Expr]:
        """No rows."""
        return [builder.emit(op.zeros((0, *self.unit_shape), self.dtype), name_hint)]

    def create(self, name_hint: str) -> list[Var]:
        """A variable of as many rows as there are."""
        shape = (fresh(f"{name_hint}_rows"), *self.unit_shape)
        return [Var(name_hint, ty=tensor_type(shape, self.dtype))]

    def set_state(self, state_vars: list[Expr]) -> None:
        """The rows are these."""
        (self._state,) = state_vars

    def finalize(self) -> list[Expr]:
        """The rows at the end of the method."""
        found, self._state = self._rows(), None
        return [found]

    def to(self, dtype: str | None = None) -> None:
        """Another dtype of the rows."""
        if dtype is not None:
            self.dtype = dt.dtype(dtype).name

    def view(self, seq_len: Any) -> Tensor:
        """All rows, of which there are `seq_len`: a call with another number of them fails."""
        wanted = tensor_type((as_shape_dim(seq_len), *self.unit_shape), self.dtype)
        return Tensor(_expr=current("a cache").builder.emit(Builder().match_cast(self._rows(), wanted), "view"))

    def append(self, new_element: Tensor) -> None:
        """Adds rows (count, *unit_shape)."""
        rows = current("a cache").builder
        if new_element.shape[1:] != Tensor(_expr=self._rows()).shape[1:] or new_element.dtype != self.dtype:
            raise TypeCheckError(f"{new_element!r} is appended to rows {self.unit_shape} of {self.dtype}")
        self._state = rows.emit(op.concat([self._rows(), new_element._expr], 0), "cache")

    def _rows(self) -> Expr:
        if self._state is None:
            raise CompileError("a cache outside of a method that is exported with it",
                               hint="an attribute of a module, and no effect_mode none")  # fmt: skip
        return self._state
