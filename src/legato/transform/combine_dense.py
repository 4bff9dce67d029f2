"""Products of the same data with several weights, side by side, become one of all units.

    (nn.dense(%x, %w1), nn.dense(%x, %w2))
        =>
    %0 = nn.dense(%x, concatenate((%w1, %w2)));
    (strided_slice(%0, …), strided_slice(%0, …))

Equal elementwise operators behind them are combined as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ops.linalg import dense
from legato.transform._parallel import Concatenate, total, weight_type

__all__ = ["CombineDense"]


@dataclass(frozen=True, slots=True)
class CombineDense(Concatenate):
    """Typed module → typed module."""

    name = "combine-dense"
    repeats = True

    def key(self, call: Call) -> Hashable | None:
        """Everything but the number of units."""
        weight = weight_type(call, dense)
        return None if weight is None else (weight.shape[1], weight.dtype, call.attrs.out_dtype)

    def whole(self, b: Builder, calls: Sequence[Call]) -> Expr:
        """One product with all units."""
        weight = b.op("concatenate")([c.args[1] for c in calls], axis=0)
        return b.call_op(dense, (calls[0].args[0], weight), replace(calls[0].attrs, units=total(calls, 1)))

    def last(self, first: Call) -> int:
        """The dim of units."""
        return 1
