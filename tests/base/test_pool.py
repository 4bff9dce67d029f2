"""Arrays that share blocks do not share bytes."""

from __future__ import annotations

import numpy as np

from legato.base import pool
from legato.base.pool import Pool


def test_arrays_are_apart_and_aligned() -> None:
    made = Pool()
    sizes = [(3,), (0,), (5, 7), (1 << 20,), (), (pool.BLOCK // 4,), (2, 3)]
    arrays = [made.empty(size, np.dtype(np.float32)) for size in sizes * 8]
    for n, array in enumerate(arrays):
        array[...] = n
    assert all((array == n).all() for n, array in enumerate(arrays))
    assert [a.shape for a in arrays] == sizes * 8
    assert all(a.ctypes.data % 64 == 0 for a in arrays if 0 < a.nbytes < pool.BLOCK // 8)
