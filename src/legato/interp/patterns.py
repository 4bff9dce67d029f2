"""Whether a value fits a pattern, and what the pattern's variables then stand for."""

from __future__ import annotations

from legato.interp.values import Data, Value
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.expr import Constructor, Var

__all__ = ["bind", "is_made_by"]


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
                if not isinstance(part, tuple) or len(part) != len(patterns):
                    return None
                todo += zip(patterns, part, strict=True)
            case PatternConstructor(constructor, patterns):
                if not is_made_by(part, constructor) or len(part.fields) != len(patterns):
                    return None
                todo += zip(patterns, part.fields, strict=True)
            case _:
                pass  # a wildcard
    return bound


def is_made_by(value: Value, constructor: Constructor) -> bool:
    """A value may be made by a constructor of another module, or of an executable: those of one name and place do."""
    if not isinstance(value, Data):
        return False
    made = value.constructor
    return made is constructor or (made.tag == constructor.tag and made.name == constructor.name)
