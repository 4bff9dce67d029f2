"""Loop programs as tensor expressions: what is read means what was written."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from legato.te.lower import to_tir
from legato.te.readback import read_back
from legato.tir import interp
from legato.tir.parser import parse_func
from legato.tir.sealed import sealed
from legato.tir.stmt import Func
from tests.te.random_kernels import kernel

COUNT = int(os.environ.get("LEGATO_FUZZ", "400"))
SIZES = ((0, 0), (0, 2), (2, 0), (1, 1), (3, 2), (2, 4))

Array = np.ndarray[Any, Any]


def results(func: Func, n: int, m: int) -> list[Array]:
    rng = np.random.default_rng(n * 7 + m)
    x, w = rng.standard_normal((n, m), np.float32), rng.standard_normal(m, np.float32)
    outs = [np.zeros((n, m), np.float32), np.zeros(n, np.float32)]
    with np.errstate(all="ignore"):
        assert interp.run(func, [x, w, *outs, n, m]) == 0
    return outs


def fault(seed: int) -> str | None:
    """What is wrong with what is read of a kernel; "" where it is not read."""
    text = kernel(seed)
    func = sealed(parse_func(text))
    stages = read_back(func, 2)
    if isinstance(stages, str):
        return ""
    again = to_tir(stages.outputs, stages.inputs, "again")
    order = [stages.dims.index(p) for p in again.params if p in stages.dims]
    assert order == [0, 1], text
    for n, m in SIZES:
        for a, b in zip(results(func, n, m), results(again, n, m), strict=True):
            if not np.allclose(a, b, 1e-4, 1e-5, equal_nan=True):
                return f"seed {seed}, n={n}, m={m}: {b}, wanted {a}\n{text}\n{again}"
    return None


def test_what_is_read_means_what_was_written() -> None:
    found = [fault(seed) for seed in range(COUNT)]
    wrong = [f for f in found if f]
    assert not wrong, wrong[0]
    assert sum(f is None for f in found) > COUNT * 0.3
