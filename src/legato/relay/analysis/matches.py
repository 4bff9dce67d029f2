"""Whether a match covers every value."""

from __future__ import annotations

from typing import Any

from legato.base.errors import TypeCheckError
from legato.ir import exhaustive
from legato.ir.clauses import Pattern, PatternConstructor
from legato.ir.expr import Match

__all__ = ["unmatched_cases"]


def unmatched_cases(match: Match, mod: Any = None) -> list[Pattern]:
    """Patterns of the values that no clause of `match` takes; empty where it is total.

    `mod` has the definitions of the data types; TypeCheckError where one that the patterns name is not there.
    """
    types = {} if mod is None else getattr(mod, "module", mod).types
    stack: list[Pattern] = [c.pattern for c in match.clauses]
    while stack:
        top = stack.pop()
        stack += top.children()
        if isinstance(top, PatternConstructor) and top.constructor.belongs_to not in types:
            name = top.constructor.belongs_to.name
            raise TypeCheckError(f"data type {name} is not defined in the module", hint="give the module as `mod`")
    return list(exhaustive.unmatched_cases(match, types))
