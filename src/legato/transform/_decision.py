"""Decision trees of matches: what to look at, in which order, until one clause is left.

After Maranget, "Compiling pattern matching to good decision trees" (2008). Rows of patterns stand over columns of
occurrences, the parts of the value that are known so far. A column is taken apart by the constructors that its rows
name; no part is looked at twice on a way through the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from legato.arith.expr import fresh
from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.infer.replace import replace_vars
from legato.ir._dims import free_dims
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from legato.ir.expr import Constructor, Expr, Match, Tuple, TupleGetItem, Var
from legato.ir.types import GlobalTypeVar, TupleType, Type, TypeCall, TypeData

__all__ = ["Branch", "Decision", "decide", "fields_of"]

MAX_DECISIONS: Final = 20_000  # the smallest tree may be exponentially large
_ANY: Final = PatternWildcard()


@dataclass(frozen=True, slots=True)
class Branch:
    """What to do with values of a constructor: its fields as variables, and the number of the next decision."""

    constructor: Constructor
    fields: tuple[Var, ...]
    next: int


@dataclass(slots=True)
class Decision:
    """One node of a tree. lets: fields of tuples, to be bound first. Then either `clause` is the number of the clause
    to take, its variables standing for `bound`; or `branches` look at variable `on`, `default` taking what is left."""

    lets: list[tuple[Var, Expr]] = field(default_factory=list)
    clause: int = -1
    bound: tuple[tuple[Var, Expr], ...] = ()
    on: Var | None = None
    branches: tuple[Branch, ...] = ()
    default: int | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """A clause as far as it is undecided, with the variables that it has bound."""

    patterns: tuple[Pattern, ...]
    clause: int
    bound: tuple[tuple[Var, Expr], ...] = ()

    def with_column(self, at: int, parts: Sequence[Pattern]) -> _Row:
        """The row with column `at` replaced by several."""
        return replace(self, patterns=(*self.patterns[:at], *parts, *self.patterns[at + 1 :]))


def decide(match: Match, types: Mapping[GlobalTypeVar, TypeData]) -> list[Decision]:
    """The tree of `match`, whose scrutinee is an operand: decision 0 is the root, others follow those that lead there.

    UnsupportedError for a match whose tree would be too large.
    """
    tree: list[Decision] = []
    first = [_Row((c.pattern,), n) for n, c in enumerate(match.clauses)]
    work: list[tuple[Decision, list[_Row], list[Expr]]] = []

    def add(rows: list[_Row], columns: list[Expr]) -> int:
        if len(tree) >= MAX_DECISIONS:
            hint = "split it into several, or order its clauses so that fewer of them overlap"
            raise UnsupportedError("this match needs too many decisions", span=match.span, hint=hint)
        tree.append(Decision())
        work.append((tree[-1], rows, columns))
        return len(tree) - 1

    add(first, [match.data])
    while work:
        decision, rows, columns = work.pop()
        rows, columns = _without_tuples(decision, rows, columns)
        top = rows[0]
        at = _column(rows)
        if at is None:
            decision.clause, decision.bound = top.clause, top.bound
            continue
        on = columns[at]
        assert isinstance(on, Var), "a value of a data type is an atom"
        decision.on, made = on, []
        for con in dict.fromkeys(p.constructor for p in _constructors(rows, at)):
            names = tuple(
                Var(f"{con.name.lower()}{n}", ty=ty, span=match.span)
                for n, ty in enumerate(fields_of(con, on.ty, types))
            )
            taken = [r for r in (_taken(row, at, con) for row in rows) if r is not None]
            made.append(Branch(con, names, add(taken, [*columns[:at], *names, *columns[at + 1 :]])))
        decision.branches = tuple(made)
        left = [row.with_column(at, ()) for row in rows if not isinstance(row.patterns[at], PatternConstructor)]
        if left and len(made) < len(types[made[0].constructor.belongs_to].constructors):
            decision.default = add(left, [*columns[:at], *columns[at + 1 :]])
    return tree


def fields_of(con: Constructor, ty: Type | None, types: Mapping[GlobalTypeVar, TypeData]) -> list[Type]:
    """The types of the fields of a value of type `ty` that `con` made; its own dims are new."""
    args = ty.args if isinstance(ty, TypeCall) else ()
    stands = dict(zip(types[con.belongs_to].type_vars, args, strict=True))
    own = {d: fresh(d.name, d.lo, d.hi) for t in con.inputs for d in free_dims(t)}
    return [replace_vars(t, stands, own) for t in con.inputs]


def _without_tuples(decision: Decision, rows: list[_Row], columns: list[Expr]) -> tuple[list[_Row], list[Expr]]:
    """Rows without variables and tuples: variables are bound, and columns of tuples become columns of their fields."""
    at = 0
    rows = [_bound(row, columns) for row in rows]
    while at < len(columns):
        width = next((len(p.patterns) for row in rows if isinstance(p := row.patterns[at], PatternTuple)), None)
        if width is None:
            at += 1
            continue
        parts = _fields(decision, columns[at], width)
        columns = [*columns[:at], *parts, *columns[at + 1 :]]
        rows = [_bound(row.with_column(at, row.patterns[at].children() or (_ANY,) * width), columns) for row in rows]
    return rows, columns


def _bound(row: _Row, columns: Sequence[Expr]) -> _Row:
    """The row with its variables bound to the columns."""
    found = [(p.var, column) for p, column in zip(row.patterns, columns, strict=True) if isinstance(p, PatternVar)]
    if not found:
        return row
    patterns = tuple(_ANY if isinstance(p, PatternVar) else p for p in row.patterns)
    return _Row(patterns, row.clause, (*row.bound, *found))


def _fields(decision: Decision, value: Expr, width: int) -> list[Expr]:
    """The fields of a tuple: its operands, or variables that the decision binds."""
    if isinstance(value, Tuple):
        return list(value.fields)
    assert isinstance(value.ty, TupleType)
    made: list[Expr] = []
    for n, ty in enumerate(value.ty.fields[:width]):
        var = Var(f"part{n}", ty=ty, span=value.span)
        decision.lets.append((var, TupleGetItem(value, n, ty=ty, span=value.span)))
        made.append(var)
    return made


def _column(rows: Sequence[_Row]) -> int | None:
    """Of the columns that the first row needs, that which most rows need; None where it needs none."""
    wanted = [n for n, p in enumerate(rows[0].patterns) if isinstance(p, PatternConstructor)]
    return max(wanted, key=lambda n: sum(1 for _ in _constructors(rows, n)), default=None)


def _constructors(rows: Sequence[_Row], at: int) -> Iterator[PatternConstructor]:
    return (p for row in rows if isinstance(p := row.patterns[at], PatternConstructor))


def _taken(row: _Row, at: int, con: Constructor) -> _Row | None:
    """The row for values of constructor `con`; None if it does not take them."""
    pattern = row.patterns[at]
    if not isinstance(pattern, PatternConstructor):
        return row.with_column(at, (_ANY,) * len(con.inputs))
    return row.with_column(at, pattern.patterns) if pattern.constructor is con else None
