"""Equalities of dims that inference could not decide: checked when the program runs."""

from __future__ import annotations

from dataclasses import dataclass

from legato.base.span import Span
from legato.ir.types import Dim

__all__ = ["Constraint"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """`a == b`, required by `what` (the operator and the dims' role). Kept in `Function.attrs["constraints"]`."""

    a: Dim
    b: Dim
    what: str
    span: Span | None = None
