"""Weights fetched ahead: the turns of a block ask for all of the next one together, and few turns for nothing more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Const, Expr, Var, const
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.base import dtype as dt
from legato.lower.rules.ahead import FEWEST_COUNTED, Ahead, share_of
from legato.lower.rules.nest import number_of
from legato.te.tensor import Axis, Reduction
from legato.tir.buffer import Buffer, Layout
from legato.tir.expr import Load
from legato.tir.stmt import For, Prefetch
from tests.programs.settings import examples

BLOCK, WITHIN = Var("ob", lo=0), Var("oi", lo=0)
LANES = 16


def weights(extents: list[int], width: int, layout: Layout | None = None) -> tuple[Load, Reduction]:
    """A read of packed weights: three blocks of sums over axes of `extents`, by `width` channels."""
    axes = tuple(Axis(Var("k", lo=0), const(n)) for n in extents)
    shape = tuple(const(n) for n in (3, *extents, width))
    buffer = Buffer("w", shape, dt.float32) if layout is None else Buffer("w", shape, dt.float32, layout)
    return Load(buffer, (BLOCK, *(a.var for a in axes), WITHIN)), Reduction("sum", axes)


COUNT = Var("turns", lo=0)


def value(e: Expr, env: dict[Var, Expr]) -> int:
    found = simplify(substitute(e, env))
    assert isinstance(found, Const)
    return int(found.value)


@examples(30, fuzz=False)
@given(
    st.lists(st.integers(1, 3), max_size=1),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(2, 20),
    st.booleans(),
)
def test_turns_ask_for_all_of_the_next_block_together(
    outer: list[int], groups: int, vectors: int, turns: int, is_known: bool
) -> None:
    steps, width = 4, vectors * LANES
    turns = turns if is_known else max(turns, FEWEST_COUNTED)
    x, reduction = weights([*outer, steps * groups], width)
    share = share_of(Ahead(BLOCK, turns if is_known else COUNT), x, reduction, WITHIN, steps, width, LANES)
    assert share is not None
    terms = steps * groups
    for n in outer:
        terms *= n
    at_next: dict[Var, Expr] = {BLOCK: const(2), WITHIN: const(0), **{a.var: const(0) for a in reduction.axes}}
    asked: list[set[int]] = []  # by turn
    for turn in range(turns):
        asked.append(set())
        for term in range(0, terms, steps):
            stmt = share.fetch(x, const(turn), const(term), at_next)
            body, places = (stmt.body, range(share.most)) if isinstance(stmt, For) else (stmt, range(1))
            assert isinstance(body, Prefetch)
            block, *zeros, place = body.indices
            env: dict[Var, Expr] = {COUNT: const(turns)}
            assert value(block, env) == 2
            assert all(value(z, env) == 0 for z in zeros)
            asked[-1] |= {value(place, {**env, stmt.var: const(n)} if isinstance(stmt, For) else env) for n in places}
    lines = len(asked[0])  # of a turn
    busy = asked[: -(-terms * width // LANES // lines)]
    assert sum(map(len, busy)) == len(set().union(*busy))
    assert set(range(0, terms * width, LANES)) <= set().union(*busy)
    assert lines * turns < terms * vectors + turns * (terms // steps)  # no turn asks for more than a line too much
    assert len(set().union(*asked)) <= lines * (len(busy) + 1)  # those behind all ask for the same


def test_turns_that_share_nothing() -> None:
    x, reduction = weights([8], 32)
    assert share_of(None, x, reduction, WITHIN, 4, 32, LANES) is None
    assert share_of(Ahead(BLOCK, 1), x, reduction, WITHIN, 4, 32, LANES) is None
    assert share_of(Ahead(BLOCK, 2), x, reduction, WITHIN, 4, 32, LANES) is not None
    odd, sum_of_odd = weights([9], 32)
    assert share_of(Ahead(BLOCK, 9), odd, sum_of_odd, WITHIN, 4, 32, LANES) is None
    spread, sum_of_spread = weights([8], 32, Layout((0, 1, 2), pad=(0, 16, 0)))
    assert share_of(Ahead(BLOCK, 9), spread, sum_of_spread, WITHIN, 4, 32, LANES) is None
    turned = Load(x.buffer, (reduction.axes[0].var, BLOCK, WITHIN))
    assert share_of(Ahead(BLOCK, 9), turned, reduction, WITHIN, 4, 32, LANES) is None


@pytest.mark.parametrize(("values", "number"), [((0, 0), 0), ((0, 6), 6), ((2, 3), 17)])
def test_the_number_of_a_term(values: tuple[int, int], number: int) -> None:
    _, reduction = weights([3, 7], 16)
    env: dict[Var, Expr] = {a.var: const(v) for a, v in zip(reduction.axes, values, strict=True)}
    assert value(number_of(reduction.axes, env), {}) == number
