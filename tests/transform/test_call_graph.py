"""Call graphs: what breaks the circles of their components."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from legato.base.graph import components
from legato.ir.expr import GlobalVar
from legato.transform._call_graph import broken

NAMES = [GlobalVar(f"f{n}") for n in range(400)]


@given(st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=8, max_size=8))
def test_without_some_functions_there_is_no_circle(edges: list[list[int]]) -> None:
    calls = {NAMES[n]: [NAMES[k] for k in called] for n, called in enumerate(edges)}
    for component in components(calls):
        stay, others = broken(calls, component)
        assert {*stay, *others} == set(component)
        for n, gv in enumerate(others):
            assert not set(others[n:]) & set(calls[gv]), "callees come first"


def test_a_long_ring_that_is_called_both_ways() -> None:
    count = len(NAMES)
    calls = {gv: [NAMES[n - 1], NAMES[(n + 1) % count]] for n, gv in enumerate(NAMES)}
    (ring,) = components(calls)
    stay, others = broken(calls, ring)
    assert len(stay) == len(others) == count // 2
