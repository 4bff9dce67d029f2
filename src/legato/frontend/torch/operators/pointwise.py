"""Arithmetic of two operands, element by element."""

from __future__ import annotations

from legato.base.dtype import bool_
from legato.frontend.torch.emitter import Emitter, Number, Value
from legato.frontend.torch.signature import aten
from legato.ir.expr import Expr


@aten("add")
def add(b: Emitter, self: Value, other: Value, *, alpha: Number = 1) -> Expr:
    x, y = b.promoted(self, other)
    if b.dtype(x) == bool_:
        return b.logical_or(x, y)
    return b.add(x, y if alpha == 1 else b.multiply(y, b.operand(alpha, b.dtype(y))))


@aten("mul")
def mul(b: Emitter, self: Value, other: Value) -> Expr:
    x, y = b.promoted(self, other)
    return b.logical_and(x, y) if b.dtype(x) == bool_ else b.multiply(x, y)


@aten("relu")
def relu(b: Emitter, self: Expr) -> Expr:
    return b.nn.relu(self)
