"""Decisions about dims that unification needs, from `arith`."""

from __future__ import annotations

from legato.arith.expr import Const, Var
from legato.ir.types import Dim

__all__ = ["prove_equal", "provably_different", "solve"]


def prove_equal(a: Dim, b: Dim) -> bool:
    return a is b


def provably_different(a: Dim, b: Dim) -> bool:
    return isinstance(a, Const) and isinstance(b, Const) and a.value != b.value


def solve(a: Dim, b: Dim, v: Var) -> Dim | None:
    return None
