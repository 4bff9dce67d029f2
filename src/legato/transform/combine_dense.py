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
from legato.transform._parallel import Concatenate, total, weight_type

__all__ = ["CombineDense"]


@dataclass(frozen=True, slots=True)
class CombineDense(Concatenate):
    """Typed module → typed module. to_batch: products of matrices become one of batches."""

    name = "combine-dense"
    repeats = True
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

    def whole(self, b: Builder, calls: Sequence[Call]) -> Expr:
        """One product with all units, or of a batch."""
        attrs, data, weights = calls[0].attrs, calls[0].args[0], [c.args[1] for c in calls]
        if self.to_batch:
            batch = b.op("stack")([data] * len(calls), axis=0), b.op("stack")(weights, axis=0)
            return b.op("nn.batch_matmul")(*batch, out_dtype=attrs.out_dtype)
        weight = b.op("concatenate")(weights, axis=0)
        return b.call_op(dense, (data, weight), replace(attrs, units=total(calls, 1)))

    def last(self, first: Call) -> int:
        """The dim of units."""
        return 1

    def operand(self, b: Builder, args: Sequence[Expr], before: Sequence[Call], first: Call) -> Expr | None:
        """`args` one after the other, or as a batch."""
        if not self.to_batch:
            return Concatenate.operand(self, b, args, before, first)
        if len({a.ty for a in args}) > 1 or not isinstance(args[0].ty, TensorType) or args[0].ty.rank > 2:
            return None
        rank = args[0].ty.rank
        return b.op("stack")([b.op("expand_dims")(a, axis=0, num_newaxis=2 - rank) if rank < 2 else a for a in args])

    def parts(self, b: Builder, whole: Expr, calls: Sequence[Call], first: Call) -> Sequence[Expr]:
        """Slices, or the parts of the batch."""
        if not self.to_batch:
            return Concatenate.parts(self, b, whole, calls, first)
        parts = b.op("split")(whole, indices_or_sections=len(calls), axis=0)
        return [b.op("squeeze")(b.get(parts, n), axis=(0,)) for n in range(len(calls))]
