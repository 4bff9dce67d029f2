"""Reading at places that data gives: what the sizes must be, at any time that they become known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.base.errors import RunError
from legato.interp import evaluate

_MODULE = legato.parse("""#[version = "0.0.5"]
def @main(%x: Tensor[(n, 2, m), int32], %at: Tensor[(k, 3, p), int64]) { gather(%x, %at, axis=1) }
""")
_COMPILED = legato.compile(_MODULE)
_EXTENTS = st.integers(0, 3)


@given(_EXTENTS, _EXTENTS, _EXTENTS, _EXTENTS)
def test_gather_asks_for_no_more_than_the_data_has_beside_its_axis(n: int, m: int, k: int, p: int) -> None:
    x = np.arange(n * 2 * m, dtype=np.int32).reshape(n, 2, m)
    at = np.resize(np.array([0, -1, 1, -2, 0], np.int64), (k, 3, p)) if k * p else np.zeros((k, 3, p), np.int64)
    if k <= n and p <= m:
        want = np.take_along_axis(x[:k, :, :p], at, 1)
        np.testing.assert_array_equal(_COMPILED(x, at), want)
        np.testing.assert_array_equal(evaluate(_MODULE, [x, at]), want)
        return
    with pytest.raises(RunError, match="gather: indices"):
        _COMPILED(x, at)
    with pytest.raises(RunError, match="gather: indices"):
        evaluate(_MODULE, [x, at])
