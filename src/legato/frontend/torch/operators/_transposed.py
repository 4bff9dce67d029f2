"""Transposes of linear operators: what cotangents of results give to those of operands."""

from __future__ import annotations

from collections.abc import Callable

from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter
from legato.ir.expr import Call, Expr
from legato.ir.op import Op

__all__ = ["by_rule", "transposed"]


def by_rule(b: Emitter, call: Expr, dy: Expr) -> list[Expr]:
    """What `dy` gives to each argument of a call, by the rule of its operator."""
    if not isinstance(call, Call) or not isinstance(call.op, Op) or call.op.grad is None:
        raise UnsupportedError(f"the gradient of {call.op if isinstance(call, Call) else call}")
    return list(call.op.grad(b, call, dy))


def transposed(b: Emitter, function: Callable[[Expr], Expr], x: Expr, dy: Expr) -> Expr:
    """What `dy` gives to `x` through a linear function, which is a chain of calls on their first arguments."""
    y, made = x, function(x)
    chain: list[Expr] = []
    while made is not y:
        assert isinstance(made, Call)
        chain.append(made)
        made = made.args[0]
    for call in chain:
        dy = by_rule(b, call, dy)[0]
    return dy
