"""Which values no clause of a match takes, and which clauses take no value.

The usefulness algorithm of Maranget, "Warnings for pattern matching" (2007), over rows of patterns whose first column
is taken apart again and again: by each constructor that it names, and at once for all those that it does not. A tuple
has one constructor, its arity. What has been decided so far is the missing value, read in prefix order. Iterative.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternWildcard
from legato.ir.expr import Constructor, Match
from legato.ir.types import GlobalTypeVar, Type, TypeCall, TypeData

__all__ = ["is_empty", "show_pattern", "unmatched_cases", "unreached_clauses"]

MAX_STEPS: Final = 20_000  # the problem is NP-complete: real matches need some tens of steps
_ANY: Final = PatternWildcard()

Row = tuple[Pattern, ...]  # what is still to be matched, leftmost first
Head = Constructor | int | None  # of a value: its constructor, the arity of a tuple, or anything


@dataclass(frozen=True, slots=True)
class _Path:
    """The heads decided so far, last first."""

    head: Head
    before: _Path | None


_Problem = tuple[list[Row], int, _Path | None]  # rows, how long they are, and what has been decided


def unmatched_cases(
    match: Match, types: Mapping[GlobalTypeVar, TypeData], *, limit: int | None = None
) -> tuple[Pattern, ...]:
    """Patterns of values that no clause of `match` takes, at most `limit` of them; empty where every value is taken.

    `types` are the module's data types. TypeCheckError for a match that would take too long to check.
    """
    if not match.clauses and is_empty(match.data.ty, types):
        return ()
    found: list[Pattern] = []
    rows: list[Row] = [(clause.pattern,) for clause in match.clauses]
    work: list[_Problem] = [(rows, 1, None)]
    steps = 0
    while work and (limit is None or len(found) < limit):
        rows, columns, path = work.pop()
        steps += 1
        if steps > MAX_STEPS:
            hint = "split it, add a clause `_ => …`, or write match? for one that need not cover every case"
            raise TypeCheckError("this match has too many cases to check them all", span=match.span, hint=hint)
        if not rows:
            found.append(_witness(path, columns))
        elif columns:
            work += reversed(_split(rows, columns, path, types))
    return tuple(found)


def unreached_clauses(match: Match, types: Mapping[GlobalTypeVar, TypeData]) -> tuple[int, ...]:
    """The clauses, by number, that take no value which none before them takes. (Those that it would take too
    long to ask about count as reached.)"""
    patterns: list[Row] = [(clause.pattern,) for clause in match.clauses]
    steps = iter(range(MAX_STEPS))
    return tuple(n for n in range(1, len(patterns)) if not _is_useful(patterns[:n], patterns[n], types, steps))


def _is_useful(rows: list[Row], row: Row, types: Mapping[GlobalTypeVar, TypeData], steps: Iterator[int]) -> bool:
    """True if there is a value that `row` takes and none of `rows` does."""
    work: list[tuple[list[Row], Row]] = [(rows, row)]
    for _ in steps:
        if not work:
            return False
        rows, row = work.pop()
        if not rows:
            return True
        if not row:
            continue
        wanted = _head(row[0])
        for taken, _, path in _split([*rows, row], len(row), None, types):
            if wanted is None or (path is not None and path.head == wanted):
                work.append((taken[:-1], taken[-1]))
    return True


def is_empty(ty: Type | None, types: Mapping[GlobalTypeVar, TypeData]) -> bool:
    """True for a data type without constructors: it has no values."""
    header = ty.func if isinstance(ty, TypeCall) else ty
    data = types.get(header) if isinstance(header, GlobalTypeVar) else None
    return data is not None and not data.constructors and not data.extern


def _split(
    rows: list[Row], columns: int, path: _Path | None, types: Mapping[GlobalTypeVar, TypeData]
) -> list[_Problem]:
    """The smaller problems of one: the first column taken apart."""
    named = dict.fromkeys(h for h in (_head(row[0]) for row in rows) if h is not None)
    rest = [row[1:] for row in rows if _head(row[0]) is None]
    if not named:
        return [(rest, columns - 1, _Path(None, path))]
    heads: Sequence[Head] = tuple(named)
    first = heads[0]
    if isinstance(first, Constructor) and first.belongs_to in types:
        heads = types[first.belongs_to].constructors
    out: list[_Problem] = []
    for head in heads:
        width = _arity(head)
        if head in named:
            taken = [(*_parts(row[0], width), *row[1:]) for row in rows if _head(row[0]) in (None, head)]
            out.append((taken, columns - 1 + width, _Path(head, path)))
        else:
            out.append(([(*(_ANY,) * width, *row) for row in rest], columns - 1 + width, _Path(head, path)))
    return out


def _head(pattern: Pattern) -> Head:
    """What a pattern asks of a value; None if it takes anything."""
    if isinstance(pattern, PatternConstructor):
        return pattern.constructor
    return len(pattern.patterns) if isinstance(pattern, PatternTuple) else None


def _arity(head: Head) -> int:
    return len(head.inputs) if isinstance(head, Constructor) else head or 0


def _parts(pattern: Pattern, width: int) -> Row:
    """The parts of a pattern of that many; of one that takes anything, as many that do."""
    parts = pattern.children()
    return parts if len(parts) == width and _head(pattern) is not None else (_ANY,) * width


def _witness(path: _Path | None, columns: int) -> Pattern:
    """The value that a path in prefix order describes, followed by as many columns of anything."""
    stack: list[Pattern] = [_ANY] * columns  # the last is the leftmost that is not yet part of another
    while path is not None:
        width = _arity(path.head)
        parts = tuple(stack.pop() for _ in range(width))
        if path.head is None:
            stack.append(_ANY)
        elif isinstance(path.head, int):
            stack.append(PatternTuple(parts))
        else:
            stack.append(PatternConstructor(path.head, parts))
        path = path.before
    return stack[-1]


def show_pattern(pattern: Pattern) -> str:
    """A pattern that binds nothing as text (patterns nest shallowly)."""
    parts = ", ".join(map(show_pattern, pattern.children()))
    if isinstance(pattern, PatternConstructor):
        return f"{pattern.constructor.name}({parts})" if parts else pattern.constructor.name
    if isinstance(pattern, PatternTuple):
        return f"({parts},)" if len(pattern.patterns) == 1 else f"({parts})"
    return "_"
