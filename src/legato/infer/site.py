"""Where demands come from: the function being typed, and the place in it."""

from __future__ import annotations

from dataclasses import field

from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var
from legato.base.dataclass import dataclass
from legato.base.span import Span
from legato.ir import expr as ir
from legato.ir.constraint import Constraint
from legato.ir.op import Op

__all__ = ["Scope", "Site", "place"]


@dataclass(slots=True)
class Scope:
    """A function being typed: the dim variables bound in it or around it, and the equalities it must check, of which it
    had the first `given` before."""

    dims: set[Var] = field(default_factory=set)
    constraints: dict[tuple[Dim, Dim], Constraint] = field(default_factory=dict)
    given: int = 0

    def child(self) -> Scope:
        """The scope of a function inside this one."""
        return Scope(set(self.dims))


@dataclass(frozen=True, slots=True)
class Site:
    """Where a demand comes from: what is being checked, its place, and the function that it is part of."""

    what: str
    span: Span | None
    scope: Scope


def place(e: ir.Expr, user: ir.Expr) -> Span | None:
    """Where the value of `e` comes from: a let's from its result; what is only a name there is where it is used.

    (A variable knows where it is bound, not where it is used.)
    """
    while isinstance(e, ir.Let):
        e, user = e.body, e
    return user.span if e.span is None or isinstance(e, ir.Var | ir.GlobalVar | ir.Constructor | Op) else e.span
