"""Blocks of what windows slide over: every place that a window needs is taken and kept."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from legato.lower.slide import Blocks, Slide


@given(st.integers(1, 200), st.integers(0, 4), st.integers(0, 4), st.integers(1, 7), st.integers(1, 4),
       st.integers(1, 9))  # fmt: skip
def test_a_block_has_what_its_windows_need(
    extent: int, before: int, after: int, reach: int, step: int, count: int
) -> None:
    results = (before + extent + after - reach) // step + 1
    assume(results >= count)
    blocks = Blocks(Slide(extent, before, after, reach, step, results), count)
    assume(blocks.rest > 0)
    seen = list[int]()
    for number in range(count):
        start = blocks.start(number)
        first = min(max(start, 0), blocks.last)
        taken = range(first, first + blocks.size)
        assert first >= 0
        assert first + blocks.size <= extent
        own = range(number * blocks.results, min((number + 1) * blocks.results, results))
        for result in own:
            window = range(result * step - before, result * step - before + reach)
            assert all(place in taken for place in window if 0 <= place < extent)
            assert all(0 <= place - start + blocks.lead < blocks.kept for place in window)
        assert all(0 <= place - start + blocks.lead < blocks.kept for place in taken)
        seen += own
    assert seen == list(range(results))


def test_halves_of_a_line_share_what_their_windows_share() -> None:
    line = Slide(extent=112, before=1, after=1, reach=3, step=1, results=112)
    assert (Blocks(line, 2).size, Blocks(line, 2).kept) == (57, 58)
    assert (Blocks(line, 1).size, Blocks(line, 1).kept) == (112, 114)
