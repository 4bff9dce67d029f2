"""Let chains as lists: the form in which passes read and write straight-line code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from legato.ir.expr import Expr, Let, Var

__all__ = ["Binding", "chain", "lets"]

Binding = tuple[Var, Expr]


def chain(expr: Expr) -> tuple[list[Binding], Expr]:
    """The bindings of the let chain that starts at `expr`, in order, and the expression after the last."""
    bindings: list[Binding] = []
    while isinstance(expr, Let):
        bindings.append((expr.var, expr.value))
        expr = expr.body
    return bindings, expr


def lets(bindings: Iterable[Binding], result: Expr) -> Expr:
    """`let v = e; …; result`, typed if `result` is."""
    out = result
    for var, value in reversed(list(bindings)):
        out = Let(var, value, out, ty=result.ty, span=value.span)
    return out


def with_body(let: Let, value: Expr, body: Expr) -> Let:
    """`let` with another value and body; the same object where both are the same."""
    if value is let.value and body is let.body:
        return let
    return replace(let, value=value, body=body, ty=body.ty)
