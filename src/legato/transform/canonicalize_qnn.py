"""Quantised operators become integer arithmetic.

qnn.requantize(%x, 0.5f, 0, 1f, 3, out_dtype="int8")
    =>
cast(clip(right_shift(cast(%x, "int64") * 1073741824i64 + 1073741824i64, 31i64) + 3i64, -128f, 127f), "int8")

What a call becomes is in its operator's record (`expand`); scales that are constants become constants there.
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.infer.infer import infer
from legato.ir.contents import called_operators
from legato.ir.effects import Effects
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ir.op import Op
from legato.transform.expand_calls import expanded
from legato.transform.pass_ import FunctionPass

__all__ = ["CanonicalizeQnn"]

_DIALECT = "qnn."


@dataclass(frozen=True, slots=True)
class CanonicalizeQnn(FunctionPass):
    """Typed module → module without calls of operators of the quantised dialect.

    The scale of a convolution, say, is not part of its sums; as an operand it is computed where it was.
    """

    name = "canonicalize-qnn"

    def function(self, func: Function, mod: Module) -> Function:
        if not any(op.name.startswith(_DIALECT) for op in called_operators(func)):
            return func
        effects = Effects(func, mod)
        body = transform(func.body, lambda node: _step(node, effects))
        return func if body is func.body else replace(func, body=body)

    def __call__(self, mod: Module) -> Module:
        """What the new calls demand of dims, their functions demand of these."""
        new = FunctionPass.__call__(self, mod)
        return mod if new is mod else infer(new)


def _step(node: Expr, effects: Effects) -> Expr | None:
    is_quantised = isinstance(node, Call) and isinstance(node.op, Op) and node.op.name.startswith(_DIALECT)
    return expanded(node, effects) if is_quantised else None
