"""The matcher finds what trying everything finds, first match first; depth and sharing cost no more than they must."""

from __future__ import annotations

from random import Random

import pytest

from legato.base.errors import CompileError
from legato.ir.expr import Call, Expr, Var, tuple_of
from legato.ir.scope import post_order
from legato.ops import table
from legato.patterns import dominates, is_op, is_tuple, match, wildcard
from legato.patterns import search as searches
from legato.patterns.graph import Graph
from legato.patterns.pattern import Pattern
from legato.patterns.search import Search
from tests.patterns.brute import solutions
from tests.patterns.graphs import graph, pattern


@pytest.mark.parametrize("seed", range(20))
def test_random_patterns_match_as_by_brute_force(seed: int) -> None:
    """Each pattern is tried at every node of its own graph, and of another one."""
    random = Random(seed)
    hits = 0
    before = graph(random, 6)
    for _ in range(10):
        root = graph(random, random.randint(1, 12))
        made = pattern(random, random.choice([e for e in post_order(root) if e.children()]), 3, [])
        for whole in (root, before):
            search = Search(Graph(whole))
            for e in post_order(whole):
                wanted = next(solutions(made, e, whole, {}), None)
                assert search.first(made, e) == wanted
                assert wanted is None or made.head in (None, getattr(e, "op", None))
                hits += wanted is not None
        before = root
    assert hits


def test_depth_is_bounded_by_memory_alone() -> None:
    x = leaf = wildcard()
    e: Expr = Var("x")
    made: Pattern = x
    for _ in range(5000):
        e, made = Call(table()["exp"], (e,)), is_op("exp")(made)
    found = match(made, e)
    assert found is not None
    assert isinstance(found[leaf], Var)
    assert match(is_op("tanh")(made), e) is None


@pytest.mark.parametrize("parent", ["tanh", "exp"])
def test_paths_to_parents_are_walked_over_once(parent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dominator pattern is tried at every node of a chain, and its parent is nowhere, or near."""
    e: Expr = Var("x")
    for _ in range(1000):
        e = Call(table()["exp"], (e,))
    steps = []
    between = Graph.between
    monkeypatch.setattr(Graph, "between", lambda *args: steps.append(1) or between(*args))
    made = dominates(is_op(parent)(wildcard()), wildcard(), is_op("exp")(wildcard()))
    search = Search(Graph(e))
    found = [search.first(made, node) for node in search.graph.order if isinstance(node, Call)]
    assert sum(f is not None for f in found) == (999 if parent == "exp" else 0)
    assert len(steps) <= 1000


def test_orders_of_nested_sums_are_not_multiplied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that share nothing are searched for once: 2 ** 63 orders are some thousand steps."""
    monkeypatch.setattr(searches, "_PATIENCE", 20_000)
    leaves: list[Expr] = [Var(f"x{i}") for i in range(64)]
    parts: list[Pattern] = [wildcard() for _ in leaves]
    parts[0] = is_op("exp")(wildcard())
    while len(leaves) > 1:
        leaves = [Call(table()["add"], (a, b)) for a, b in zip(leaves[::2], leaves[1::2], strict=True)]
        parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
    assert match(parts[0], leaves[0]) is None


def test_a_search_that_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shared parts may have to be tried at all places: that is a hard problem, and ends."""
    monkeypatch.setattr(searches, "_PATIENCE", 1000)
    names = [(Var(f"x{i}"), Var(f"y{i}")) for i in range(16)]
    sums = [Call(table()["add"], pair) for pair in names]
    first, *others = [(wildcard(), wildcard()) for _ in names]
    made = is_tuple([a + b for a, b in (first, *others)] + [is_op("exp")(first[0])] + [a for a, _ in others])
    last = Call(table()["exp"], (names[0][1],))
    with pytest.raises(CompileError, match="matching takes more than 1,000 steps"):
        match(made, tuple_of([*sums, last, *(x for x, _ in names[1:])]))
