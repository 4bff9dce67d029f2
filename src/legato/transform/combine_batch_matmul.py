"""Products of the same batch with several batches, side by side, become one.

(nn.batch_matmul(%x, %y1), nn.batch_matmul(%x, %y2))
    =>
%0 = nn.batch_matmul(%x, concatenate((%y1, %y2), axis=1));
(strided_slice(%0, …), strided_slice(%0, …))
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ops.linalg import batch_matmul
from legato.transform._parallel import Concatenate, weight_type

__all__ = ["CombineBatchMatmul"]


@dataclass(frozen=True, slots=True)
class CombineBatchMatmul(Concatenate):
    """Typed module → typed module."""

    name = "combine-batch-matmul"

    def key(self, call: Call) -> Hashable | None:
        """Everything but the number of columns."""
        weight = weight_type(call, batch_matmul)
        if weight is None:
            return None
        return weight.shape[0], weight.shape[2 if call.attrs.transpose_b else 1], weight.dtype, call.attrs

    def whole(self, b: Builder, calls: Sequence[Call]) -> Expr:
        """One product with all columns."""
        attrs = calls[0].attrs
        weight = b.op("concatenate")([c.args[1] for c in calls], axis=1 if attrs.transpose_b else 2)
        return b.call_op(batch_matmul, (calls[0].args[0], weight), attrs)

    def last(self, first: Call) -> int:
        """The dim of columns."""
        return 1
