"""Constant segments: joined from arrays, or made of arrays that lie in them from the start."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from legato.runtime.parts import ALIGNMENT, Constants, Segment, constant_offsets, join_constants

ARRAYS = [
    ("a", np.arange(5, dtype=np.float32)),
    ("b", np.arange(6, dtype=np.int64).reshape(2, 3).T),  # not in C order
    ("c", np.zeros((3, 0), np.float32)),
    ("d", np.array(7, np.uint8)),
]


def contents(constants: Constants) -> dict[str, bytes]:
    return {i.name: constants.segment[i.offset : i.offset + i.size].tobytes() for i in constants.infos}


def test_joined() -> None:
    joined = join_constants(ARRAYS)
    assert joined.offsets == constant_offsets(ARRAYS)
    assert contents(joined) == {name: array.tobytes() for name, array in ARRAYS}
    assert joined.segment.size % ALIGNMENT == 0


def test_arrays_that_are_made_in_a_segment_stay_where_they_are() -> None:
    segment = Segment(1 << 12)
    first, second = segment.empty((4, 3), np.dtype(np.float32)), segment.empty((2,), np.dtype(np.int64))
    first[...], second[...] = 1.5, 9
    made = segment.finished([("second", second), *ARRAYS, ("first", first)])
    assert made.offsets["first"] == 0
    assert made.offsets["second"] == ALIGNMENT
    assert np.shares_memory(made.segment, first)
    assert all(offset % ALIGNMENT == 0 for offset in made.offsets.values())
    assert contents(made) == {name: a.tobytes() for name, a in [("second", second), *ARRAYS, ("first", first)]}


@pytest.mark.parametrize("capacity", [0, 100, 200])
def test_a_segment_that_is_too_small(capacity: int) -> None:
    segment = Segment(capacity)
    large = segment.empty((64,), np.dtype(np.float32))
    large[...] = 2
    made = segment.finished([("large", large), *ARRAYS])
    assert contents(made) == {name: array.tobytes() for name, array in [("large", large), *ARRAYS]}


def test_more_than_there_is_address_space_for() -> None:
    segment = Segment(1 << 62)
    assert contents(segment.finished(ARRAYS)) == {name: array.tobytes() for name, array in ARRAYS}


def test_arrays_keep_a_segment_alive() -> None:
    array = Segment(1 << 22).empty((1 << 20,), np.dtype(np.uint8))
    gc.collect()
    array[...] = 3  # would be a fault if the memory were gone
    assert array.sum() == 3 << 20
