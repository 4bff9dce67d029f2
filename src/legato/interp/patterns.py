"""Whether a value fits a pattern, and what the pattern's variables then stand for."""

from __future__ import annotations

from legato.interp.values import Value
from legato.ir.expr import Pattern, PatternConstructor, PatternTuple, PatternVar, Var

__all__ = ["bind"]


def bind(pattern: Pattern, value: Value) -> dict[Var, Value] | None:
    """What the variables of `pattern` stand for if `value` fits it; None if it does not."""
    bound: dict[Var, Value] = {}
    todo = [(pattern, value)]
    while todo:
        inner, part = todo.pop()
        match inner:
            case PatternVar(var):
                bound[var] = part
            case PatternTuple(patterns):
                todo += zip(patterns, part, strict=True)
            case PatternConstructor(constructor, patterns):
                made = part.constructor
                if made.belongs_to is not constructor.belongs_to or made.tag != constructor.tag:
                    return None
                todo += zip(patterns, part.fields, strict=True)
            case _:
                pass  # a wildcard
    return bound
