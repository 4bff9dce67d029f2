"""Places of buffers of symbolic sizes: none meets another, whatever the dims are; little is left unused."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr, Var, cdiv, const, max_
from legato.lower.regions import Span, nested
from tests.steps import steps

N, M = Var("n", lo=0), Var("m", lo=0, hi=300)
SIZES = [const(64), N * 64, N * 128, M * 64, N * M * 8, cdiv(N, 2) * 64, cdiv(N, 2) * M * 8, max_(N, M) * 64, N * N]


def spans(drawn: Sequence[tuple[int, int, int]]) -> list[Span]:
    return [(first, first + length, SIZES[size]) for first, length, size in drawn]


DRAWN = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, len(SIZES) - 1)), max_size=30)


@given(DRAWN, st.integers(0, 400), st.integers(0, 300))
def test_no_two_meet(drawn: list[tuple[int, int, int]], n: int, m: int) -> None:
    given_spans, dims = spans(drawn), {N: n, M: m}
    starts, size = nested(given_spans)

    def at(e: Expr) -> int:
        return int(evaluate(e, dims))

    places = [(*span[:2], at(start), at(start + span[2])) for span, start in zip(given_spans, starts, strict=True)]
    for k, (first, last, low, high) in enumerate(places):
        assert 0 <= low <= high <= at(size)
        for other_first, other_last, other_low, other_high in places[:k]:
            apart = last < other_first or other_last < first
            assert apart or low == high or other_low == other_high or high <= other_low or other_high <= low


def test_a_slot_is_as_large_as_the_larger() -> None:
    """Nobody knows which of both is larger; neither needs memory of its own."""
    _, size = nested([(0, 1, N * 64), (2, 3, M * 64)])
    assert [evaluate(size, {N: n, M: m}) for n, m in ((1, 2), (2, 1))] == [128, 128]


def test_small_buffers_lie_side_by_side_where_a_large_one_was() -> None:
    _, size = nested([(0, 1, N * 256), *((2, 3, N * 64) for _ in range(4))])
    assert evaluate(size, {N: 5}) == 5 * 256


def test_work_is_near_linear() -> None:
    """A long network: buffers of many sizes, of which each meets a few others."""

    def network(count: int) -> list[Span]:
        random = Random(0)
        return [(n, n + random.randrange(1, 4), N * random.randrange(1, 50) * 64) for n in range(count)]

    short, long = (steps(partial(nested, network(count))) for count in (250, 1000))
    assert long < 5 * short
