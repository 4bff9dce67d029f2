"""Calls of one operator on the same data, side by side, with operands of one shape, become one of a batch.

(nn.dense(%x, %w1), nn.dense(%x, %w2))
    =>
%0 = nn.batch_matmul(stack((%x, %x)), stack((%w1, %w2)));
(squeeze(split(%0).0), squeeze(split(%0).1))
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ir.op import Fusion, Op
from legato.ir.types import TensorType
from legato.ops import table
from legato.transform._parallel import CombineParallel, shape_of

__all__ = ["CombineOpBatch"]


@dataclass(frozen=True, slots=True)
class CombineOpBatch(CombineParallel):
    """Typed module → typed module. `batch_op` does to each part of a batch what `op` does.

    That is known of nn.dense and nn.batch_matmul, and of elementwise operators and themselves; UnsupportedError for
    others.
    """

    name = "combine-op-batch"
    op: str = "nn.dense"
    batch_op: str = "nn.batch_matmul"

    def check_options(self) -> None:
        if (self.op, self.batch_op) != ("nn.dense", "nn.batch_matmul") and not self._is_elementwise():
            hint = "nn.dense becomes nn.batch_matmul, elementwise operators without attributes become themselves"
            raise UnsupportedError(f"{self.op} as {self.batch_op} of a batch is not supported", hint=hint)

    def _is_elementwise(self) -> bool:
        op = table().get(self.op)
        return op is not None and self.op == self.batch_op and op.attrs is None and op.fuses(None) <= Fusion.BROADCAST

    def key(self, call: Call) -> Hashable | None:
        """The types of all operands, of one rank."""
        if not isinstance(call.op, Op) or call.op.name != self.op or not isinstance(call.ty, TensorType):
            return None
        types = [a.ty for a in call.args if isinstance(a.ty, TensorType) and a.ty.rank == call.ty.rank]
        is_matrix = self.op == self.batch_op or call.ty.rank == 2
        return (*types, call.ty.dtype) if len(types) == len(call.args) and is_matrix else None

    def whole(self, b: Builder, calls: Sequence[Call]) -> Expr:
        """The call of the batch."""
        args = [b.op("stack")([c.args[n] for c in calls], axis=0) for n in range(len(calls[0].args))]
        attrs = {} if calls[0].attrs is None else {"out_dtype": calls[0].attrs.out_dtype}
        return b.op(self.batch_op)(*args, **attrs)

    def operand(self, b: Builder, args: Sequence[Expr], before: Sequence[Call], first: Call) -> Expr | None:
        """`args` as a batch, each with the rank of the results `before`."""
        ty = args[0].ty
        if any(a.ty != ty for a in args) or not isinstance(ty, TensorType):
            return None
        missing = len(shape_of(before[0])) - ty.rank
        if missing < 0:
            return None
        parts = [b.op("expand_dims")(a, axis=0, num_newaxis=missing) if missing else a for a in args]
        return b.op("stack")(parts, axis=0)

    def parts(self, b: Builder, whole: Expr, calls: Sequence[Call], first: Call) -> Sequence[Expr]:
        """The parts of the batch."""
        fields = b.op("split")(whole, indices_or_sections=len(calls), axis=0)
        return [b.op("squeeze")(b.get(fields, n), axis=(0,)) for n in range(len(calls))]
