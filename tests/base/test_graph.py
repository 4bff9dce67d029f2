"""Graphs: strongly connected components."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from legato.base.graph import components


@given(st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=8, max_size=8))
def test_components_are_what_reaches_each_other(edges: list[list[int]]) -> None:
    uses = dict(enumerate(edges))
    reached = {n: {n} for n in uses}
    for _ in uses:
        reached = {n: found.union(*(reached[k] for k in uses[n])) for n, found in reached.items()}
    found = components(uses)
    assert sorted(n for c in found for n in c) == [*uses]
    done: set[int] = set()
    for component in found:
        first = component[0]
        assert set(component) == {n for n in reached[first] if first in reached[n]}
        done.update(component)
        assert reached[first] <= done, "what is used comes first"


def test_a_long_chain() -> None:
    chain = range(20_000)
    assert components({n: [n + 1] if n + 1 in chain else [] for n in chain}) == [[n] for n in reversed(chain)]
