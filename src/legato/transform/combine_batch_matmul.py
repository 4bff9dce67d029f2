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
from legato.transform._parallel import CombineParallel, slices, weight_type

__all__ = ["CombineBatchMatmul"]


@dataclass(frozen=True, slots=True)
class CombineBatchMatmul(CombineParallel):
    """Typed module → typed module."""

    name = "combine-batch-matmul"

    def key(self, call: Call) -> Hashable | None:
        """Everything but the number of columns."""
        weight = weight_type(call, batch_matmul)
        if weight is None:
            return None
        return weight.shape[0], weight.shape[2 if call.attrs.transpose_b else 1], weight.dtype, call.attrs

    def combined(self, calls: Sequence[Call]) -> Sequence[Expr]:
        """Slices of the columns of one product."""
        b, attrs = Builder(span=calls[0].span), calls[0].attrs
        weight = b.op("concatenate")([c.args[1] for c in calls], axis=1 if attrs.transpose_b else 2)
        whole = b.call_op(batch_matmul, (calls[0].args[0], weight), attrs)
        return slices(b, whole, 2, calls)
