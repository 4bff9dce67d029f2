"""Whether a partially static value fits a pattern: for certain, perhaps, or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from legato.ir.clauses import Clause, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from legato.ir.expr import Var
from legato.transform._partial.values import Fields, Made, Value

__all__ = ["Fit", "fitting", "residual", "taken"]


class Fit(NamedTuple):
    """A clause whose pattern a value fits, for certain or perhaps.

    `known` are the values of the pattern's variables, those in `tuples` aside: patterns that tuples fit for certain of
    which the fields are not told apart.
    """

    clause: Clause
    is_certain: bool
    known: Mapping[Var, Value]
    tuples: Sequence[tuple[Pattern, Value]] = ()


def fitting(clauses: Sequence[Clause], value: Value) -> list[Fit]:
    """The clauses that may be taken, in order, up to one that fits for certain. Where none fits, the first: the program
    fails there when it runs."""
    found: list[Fit] = []
    for clause in clauses:
        fit = _fit(clause, value)
        found += () if fit is None else (fit,)
        if fit is not None and fit.is_certain:
            break
    return found or [Fit(clauses[0], False, {})]


def _fit(clause: Clause, value: Value) -> Fit | None:
    """How `value` fits the pattern of a clause; None if it does not."""
    known: dict[Var, Value] = {}
    tuples: list[tuple[Pattern, Value]] = []
    is_certain = True
    todo = [(clause.pattern, value)]
    while todo:
        inner, part = todo.pop()
        match inner:
            case PatternVar(var):
                known[var] = part
            case PatternTuple(patterns) if isinstance(part, Fields):
                todo += zip(patterns, part.fields, strict=True)
            case PatternTuple() if _takes_all(inner):
                tuples.append((inner, part))
            case PatternConstructor(constructor, patterns) if isinstance(part, Made):
                if part.constructor is not constructor:
                    return None
                todo += zip(patterns, part.fields, strict=True)
            case PatternConstructor() | PatternTuple():
                is_certain = False
            case _:
                pass  # a wildcard
    return Fit(clause, is_certain, known, tuples)


def _takes_all(pattern: Pattern) -> bool:
    """True for tuples, of any depth, of variables and wildcards (patterns nest shallowly)."""
    return not isinstance(pattern, PatternConstructor) and all(map(_takes_all, pattern.children()))


def taken(fit: Fit, field: Callable[[Value, int], Value]) -> Iterator[tuple[Var, Value]]:
    """The values of all variables of a clause that is taken; `field(value, n)` is a field of a tuple."""
    yield from fit.known.items()
    todo = list(fit.tuples)
    while todo:
        pattern, value = todo.pop()
        if isinstance(pattern, PatternVar):
            yield pattern.var, value
        for n, inner in enumerate(pattern.children()):
            if not isinstance(inner, PatternWildcard):
                todo.append((inner, field(value, n)))


def residual(pattern: Pattern, known: Mapping[Var, Value], new: Callable[[Var], Var]) -> Pattern:
    """The pattern that finds out what is not known: `new(v)` for its other variables (patterns nest shallowly)."""
    match pattern:
        case PatternVar(var):
            return PatternWildcard(span=pattern.span) if var in known else PatternVar(new(var), span=pattern.span)
        case PatternTuple(patterns):
            return PatternTuple(tuple(residual(p, known, new) for p in patterns), span=pattern.span)
        case PatternConstructor(constructor, patterns):
            parts = tuple(residual(p, known, new) for p in patterns)
            return PatternConstructor(constructor, parts, span=pattern.span)
        case _:
            return pattern
