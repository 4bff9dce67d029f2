"""Products of the same data with several weights, side by side, become one.

    (nn.dense(%x, %w1), nn.dense(%x, %w2))
        =>
    %0 = nn.dense(%x, concatenate((%w1, %w2)));
    (strided_slice(%0, …), strided_slice(%0, …))

or, to a batch, where the weights have one shape:

    %0 = nn.batch_matmul(stack((%x, %x)), stack((%w1, %w2)));
    (squeeze(split(%0).0), squeeze(split(%0).1))
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ir.types import TensorType
from legato.ops.linalg import dense
from legato.transform._parallel import CombineParallel, slices, weight_type

__all__ = ["CombineDense"]


@dataclass(frozen=True, slots=True)
class CombineDense(CombineParallel):
    """Typed module → typed module. to_batch: products of matrices become one of batches."""

    name = "combine-dense"
    to_batch: bool = False

    def key(self, call: Call) -> Hashable | None:
        """Everything but the number of units; in a batch, all."""
        weight = weight_type(call, dense)
        if weight is None:
            return None
        if not self.to_batch:
            return weight.shape[1], weight.dtype, call.attrs.out_dtype
        data = call.args[0].ty
        assert isinstance(data, TensorType)
        return (weight, call.attrs.out_dtype) if data.rank == 2 else None

    def combined(self, calls: Sequence[Call]) -> Sequence[Expr]:
        """Slices of the units of one product, or the products of a batch."""
        b, attrs = Builder(span=calls[0].span), calls[0].attrs
        data, weights = calls[0].args[0], [c.args[1] for c in calls]
        if self.to_batch:
            batch = b.op("stack")([data] * len(calls), axis=0), b.op("stack")(weights, axis=0)
            whole = b.op("nn.batch_matmul")(*batch, out_dtype=attrs.out_dtype)
            parts = b.op("split")(whole, indices_or_sections=len(calls), axis=0)
            return [b.op("squeeze")(b.get(parts, n), axis=(0,)) for n in range(len(calls))]
        units = [c.attrs.units for c in calls]
        total = None if None in units else sum(units)
        weight = b.op("concatenate")(weights, axis=0)
        whole = b.call_op(dense, (data, weight), replace(attrs, units=total))
        assert isinstance(calls[0].ty, TensorType)
        return slices(b, whole, calls[0].ty.rank - 1, calls)
