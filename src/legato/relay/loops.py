"""Loops as functions that call themselves last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.ir import expr as ir
from legato.ir.expr import Expr
from legato.relay.expr import Tuple, as_expr

__all__ = ["while_loop"]


def while_loop(cond: Callable[..., Any], loop_vars: Sequence[Expr], loop_bodies: Callable[..., Sequence[Any]]) -> Expr:
    """A function that runs a loop: called with initial values, it gives the tuple of those for which `cond` is false.

    `loop_vars` are variables or expressions that say the names and types of the loop's variables; `cond` and
    `loop_bodies` build the condition and the next values from them. Runs in constant space.
    """
    own = [ir.Var(getattr(v, "name", f"arg{n}"), ty=v.ty) for n, v in enumerate(loop_vars)]
    loop = ir.Var("while_loop")
    again = ir.Call(loop, tuple(as_expr(e) for e in loop_bodies(*own)))
    body = ir.If(as_expr(cond(*own)), again, Tuple.build(own))
    return ir.Let(loop, ir.Function(tuple(own), body), loop)
