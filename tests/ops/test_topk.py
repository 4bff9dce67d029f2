"""The first elements in order: selected where they are few, taken from all in order where they are many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.base.errors import RunError
from legato.interp import evaluate


def _module(n: int | str, k: int, dtype: str, is_ascend: bool) -> legato.Module:
    return legato.parse(f"""#[version = "0.0.5"]
def @main(%x: Tensor[(3, {n}), {dtype}]) {{ topk(%x, k={k}, axis=1, is_ascend={is_ascend}) }}
""")


_COMPILED = {(k, asc): legato.compile(_module("n", k, "float32", asc)) for k in (1, 5, 64, 65) for asc in (True, False)}


@given(st.sampled_from(sorted(_COMPILED)), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_it_is_the_beginning_of_the_sorted_row(case: tuple[int, bool], more: int, seed: int) -> None:
    k, is_ascend = case
    rng = np.random.default_rng(seed)
    x = rng.choice(np.array([-1, -0.0, 0, 1, 2, 3, np.inf, -np.inf, np.nan], np.float32), (3, k + more))
    for got, want in zip(_COMPILED[case](x), evaluate(_module("n", k, "float32", is_ascend), [x]), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("k", [5, 65])
def test_more_than_there_are_is_an_error_when_it_runs(k: int) -> None:
    message = rf"topk: k elements of dimension 1: the sizes do not fit\n  got:    {k - 1} and {k}"
    with pytest.raises(RunError, match=message):
        _COMPILED[k, True](np.zeros((3, k - 1), np.float32))
