"""Where buffers are placed: as by looking at all others, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Const, const
from legato.base import dtype as dt
from legato.lower import plan
from legato.lower.lives import Life
from legato.lower.plan import _place_static, _Timeline
from legato.tir.buffer import Buffer


def lives(spans: Sequence[tuple[int, int, int]]) -> list[Life]:
    return [
        Life([Buffer(f"b{n}", (const(size),), dt.uint8)], first, first + length, const(size))
        for n, (first, length, size) in enumerate(spans)
    ]


def by_looking_at_all(given_lives: Sequence[Life]) -> dict[Buffer, int]:
    placed: list[tuple[int, int, Life]] = []
    offsets: dict[Buffer, int] = {}
    for life in sorted(given_lives, key=lambda x: (-plan._int(x.bytes), x.first)):
        size, offset = plan._int(life.bytes), 0
        for start, end, other in sorted(placed, key=lambda p: p[:2]):
            if other.last < life.first or life.last < other.first:
                continue
            if offset + size <= start:
                break
            offset = max(offset, end)
        placed.append((offset, offset + size, life))
        offsets[life.buffers[0]] = offset
    return offsets


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(1, 9)), max_size=40))
def test_places(spans: list[tuple[int, int, int]]) -> None:
    made = lives(spans)
    found = _place_static(made)
    assert {b: int(o.value) for b, o in found.offsets.items() if isinstance(o, Const)} == by_looking_at_all(made)


@pytest.mark.parametrize("count", [500, 4000])
def test_what_is_looked_at_does_not_grow(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long network: every buffer meets a few others, so that is all that is looked at for each."""
    looked_at = 0
    original = _Timeline.overlapping

    def counted(self: _Timeline, life: Life) -> set[tuple[int, int]]:
        nonlocal looked_at
        found = original(self, life)
        looked_at += len(found)
        return found

    monkeypatch.setattr(_Timeline, "overlapping", counted)
    random = Random(0)
    _place_static(lives([(n, random.randrange(1, 4), random.randrange(1, 100)) for n in range(count)]))
    assert looked_at < 8 * count
