"""Products of the same tensor with several, side by side, become one.

    (matmul(%x, %y1), matmul(%x, %y2))
        =>
    %0 = matmul(%x, concatenate((%y1, %y2), axis=-1));
    (strided_slice(%0, …), strided_slice(%0, …))

Equal elementwise operators behind them are combined as well.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ops.linalg import matmul
from legato.transform._parallel import Concatenate, weight_type

__all__ = ["CombineMatmul"]


@dataclass(frozen=True, slots=True)
class CombineMatmul(Concatenate):
    """Typed module → typed module. Products with vectors stay."""

    name = "combine-matmul"
    repeats = True

    def key(self, call: Call) -> Hashable | None:
        """Everything but the number of columns."""
        right = weight_type(call, matmul)
        return None if right is None or right.rank < 2 else (right.shape[:-1], right.dtype, call.attrs)

    def whole(self, b: Builder, calls: Sequence[Call]) -> Expr:
        """One product with all columns."""
        right = b.op("concatenate")([c.args[1] for c in calls], axis=-1)
        return b.call_op(matmul, (calls[0].args[0], right), calls[0].attrs)

    def last(self, first: Call) -> int:
        """The dim of columns."""
        return 1
