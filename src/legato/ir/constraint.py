"""Equalities of dims that inference could not decide: checked when the program runs."""

from __future__ import annotations

from collections.abc import Iterable

from legato.arith.broadcast import sides_of_fit
from legato.arith.expr import Var
from legato.arith.printer import show
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.span import Span
from legato.ir._names import Names
from legato.ir.types import Dim

__all__ = ["Constraint", "demanded", "sides"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """`a == b`, required by `what` (the operator and the dims' role). Kept in `Function.attrs["constraints"]`."""

    a: Dim
    b: Dim
    what: str
    span: Span | None = None


def sides(a: Dim, b: Dim, dims: Iterable[Var] = ()) -> tuple[str, str]:
    """The sides of an equality as text, in which different dims have different names.

    Names are given out to `dims` first: with a function's type parameters, in their order, they are as in its text.
    """
    names = Names()
    given = {v: names.unique(v.name) for v in dict.fromkeys((*dims, *variables(a, b)))}
    return show(a, given.__getitem__), show(b, given.__getitem__)


def demanded(a: Dim, b: Dim) -> tuple[Dim, Dim, str]:
    """The two dims that the equality `a` == `b` is about, and what else they may be, in words: where it is one of what
    they broadcast to, these are those that do."""
    pair = sides_of_fit(a, b)
    return (a, b, "") if pair is None else (*pair, ", or one of them 1")
