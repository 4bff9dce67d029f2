"""Which cases a match forgets: those that it says, against all values up to a size."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.base.errors import TypeCheckError
from legato.ir.clauses import Clause, Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from legato.ir.exhaustive import show_pattern, unmatched_cases, unreached_clauses
from legato.ir.expr import Constructor, Match, Var
from legato.ir.types import GlobalTypeVar, TupleType, TypeData
from tests.programs.settings import examples

TREE = GlobalTypeVar("Tree")
LEAF = Constructor("Leaf", (), TREE, 0)
NODE = Constructor("Node", (TREE, TREE), TREE, 1)
PAIR = Constructor("Pair", (TupleType((TREE, TREE)),), TREE, 2)
TYPES = {TREE: TypeData(TREE, (), (LEAF, NODE, PAIR))}
ANY = PatternWildcard()

Value = tuple[Constructor | None, tuple["Value", ...]]  # None: a tuple


def values(depth: int) -> list[Value]:
    """Every tree of at most this depth."""
    out: list[Value] = [(LEAF, ())]
    if depth:
        smaller = values(depth - 1)
        pairs = list(product(smaller, smaller))
        out += [(NODE, p) for p in pairs] + [(PAIR, ((None, p),)) for p in pairs]
    return out


def takes(pattern: Pattern, value: Value) -> bool:
    """The meaning of a pattern."""
    head, parts = value
    match pattern:
        case PatternConstructor(constructor, patterns):
            return head is constructor and all(map(takes, patterns, parts))
        case PatternTuple(patterns):
            return head is None and all(map(takes, patterns, parts))
        case _:
            return True


@st.composite
def patterns(draw: st.DrawFn, depth: int = 2) -> Pattern:
    """Patterns of trees."""
    kind = draw(st.integers(0, 4 if depth else 1))
    inner = patterns(depth - 1)
    match kind:
        case 0:
            return draw(st.sampled_from([ANY, PatternVar(Var("x"))]))
        case 1:
            return PatternConstructor(LEAF)
        case 2 | 3:
            return PatternConstructor(NODE, (draw(inner), draw(inner)))
        case _:
            pair = st.one_of(st.just(ANY), st.tuples(inner, inner).map(PatternTuple))
            return PatternConstructor(PAIR, (draw(pair),))


def matching(*clauses: Pattern) -> Match:
    """A match of these clauses."""
    return Match(Var("x"), tuple(Clause(p, Var("y")) for p in clauses))


@examples(150, fuzz=False)
@given(st.lists(patterns(), max_size=5))
def test_exactly_the_forgotten_values(clauses: list[Pattern]) -> None:
    forgotten = unmatched_cases(matching(*clauses), TYPES)
    for value in values(2):
        assert any(takes(p, value) for p in clauses) != any(takes(p, value) for p in forgotten)


@examples(60, fuzz=False)
@given(st.lists(patterns(), max_size=5))
def test_exactly_the_clauses_that_take_nothing_new(clauses: list[Pattern]) -> None:
    first = {next((n for n, p in enumerate(clauses) if takes(p, value)), None) for value in values(3)}
    assert unreached_clauses(matching(*clauses), TYPES) == tuple(n for n in range(len(clauses)) if n not in first)


def test_limit() -> None:
    found = unmatched_cases(matching(), TYPES)
    assert [show_pattern(p) for p in found] == ["_"]
    found = unmatched_cases(matching(PatternConstructor(NODE, (ANY, PatternConstructor(LEAF)))), TYPES)
    assert [show_pattern(p) for p in found] == ["Leaf", "Node(_, Node(_, _))", "Node(_, Pair(_))", "Pair(_)"]
    assert len(unmatched_cases(matching(PatternConstructor(LEAF)), TYPES, limit=1)) == 1


def test_tuples() -> None:
    leaf = PatternConstructor(LEAF)
    found = unmatched_cases(matching(PatternTuple((leaf, ANY)), PatternTuple((ANY, leaf))), TYPES, limit=2)
    assert [show_pattern(p) for p in found] == ["(Node(_, _), Node(_, _))", "(Node(_, _), Pair(_))"]
    assert show_pattern(PatternTuple((ANY,))) == "(_,)"
    assert unmatched_cases(matching(PatternTuple(())), TYPES) == ()


def test_a_hostile_match_is_an_error() -> None:
    width = 24
    clauses = [
        PatternTuple(tuple(PatternConstructor(LEAF) if k in (n, n + 1) else ANY for k in range(width)))
        for n in range(width - 1)
    ]
    with pytest.raises(TypeCheckError, match="too many cases"):
        unmatched_cases(matching(*clauses), TYPES)
    assert unreached_clauses(matching(*clauses, ANY), TYPES) == ()  # nobody knows


def test_deep_patterns() -> None:
    deep: Pattern = ANY
    for _ in range(5_000):
        deep = PatternConstructor(NODE, (PatternConstructor(LEAF), deep))
    assert len(unmatched_cases(matching(deep), TYPES, limit=3)) == 3
