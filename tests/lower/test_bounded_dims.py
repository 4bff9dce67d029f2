"""Dims with bounds: what a schedule decides by an extent holds for every value that the bounds allow.

Each program is compiled once per pair of bounds and called at the ends of the range and within, and compared with the
interpreter.
"""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.interp import evaluate
from tests.heavy import marked, picked

BOUNDS = [(1, 1), (0, None), (0, 1), (1, 32), (0, 15), (0, 63), (0, 64), (63, 65), (64, 127), (65, 130)]
FIRST, LONGEST = (0, 1, 2, 15, 31, 63, 64, 65, 100, 127, 128, 200), 200

PROGRAMS = {
    "sum of all": "sum(%x)",
    "sums of rows": "sum(%x, axis=[1])",
    "sums of columns": "sum(%x, axis=[0])",
    "means of rows": "mean(%x, axis=[1], keepdims=True)",
    "maxima and sums": "divide(sum(%x, axis=[0]), max(abs(%x) + 1f, axis=[0]))",
    "softmax of rows": "nn.softmax(%x, axis=1)",
    "softmax of columns": "nn.softmax(%x, axis=0)",
    "product along the dim": "matmul(transpose(%w), matmul(%x, %w))",
    "product of it": "nn.relu(matmul(%x, %w))",
    "attention": "matmul(nn.softmax(matmul(%x, transpose(%x)), axis=1), %x)",
    "norm": "sqrt(sum(%x * %x, axis=[1]))",
    "windows": "nn.avg_pool2d(reshape(%x, newshape=[1, 1, n, N]), pool_size=[3, 3], padding=[1, 1])",
    "convolution": "nn.conv2d(reshape(%x, newshape=[1, 1, n, N]), ones(shape=[5, 1, 3, 3]), padding=[1, 1])",
    "weights of that size": "nn.conv1d(reshape(%x, newshape=[1, n, N]), ones(shape=[4, n, 3]))",
    "running sums": "cumsum(%x, axis=0)",
}
SHAPES = {
    "sums of rows": "M, n", "means of rows": "M, n", "softmax of rows": "M, n", "norm": "M, n",
    "product along the dim": "n, n",
}  # fmt: skip


def sizes(lo: int, hi: int | None) -> list[int]:
    """Values within the bounds: the ends, and those at which schedules differ."""
    top = LONGEST if hi is None else hi
    return sorted({lo, top, *(n for n in FIRST if lo <= n <= top)})[:: 1 if hi is not None and hi - lo < 4 else 2]


LEAST = {"windows": 1, "convolution": 1}  # that a window fits into


CASES = [
    marked(name, bounds, heavy=not picked(f"{name} {bounds}", 5), name=f"{name}-{bounds}")
    for name in PROGRAMS
    for bounds in BOUNDS
]


@pytest.mark.parametrize(("name", "bounds"), CASES)
def test_every_value_within_the_bounds(name: str, bounds: tuple[int, int | None]) -> None:
    lo, hi = bounds
    rows, columns = (s.strip() for s in SHAPES.get(name, "n, N").split(","))
    body = PROGRAMS[name].replace("N]", "12]")
    shape = f"{rows.replace('M', '7')}, {columns.replace('N', '12')}"
    binder = "[n: ShapeVar]" if hi is None else f"[n: ShapeVar({lo}, {hi})]"
    inner = "n" if columns == "n" else "12"
    mod = legato.parse(f"""#[version = "0.0.5"]
    def @main{binder}(%x: Tensor[({shape}), float32], %w: Tensor[({inner}, 20), float32]) {{ {body} }}""")
    exe = legato.compile(mod)
    rng = np.random.default_rng(len(name))
    for n in sizes(max(lo, LEAST.get(name, 0)), hi):
        at = {"n": n, "M": 7, "N": 12}
        x = rng.standard_normal((at[rows], at[columns])).astype("float32")
        w = rng.standard_normal((at[columns], 20)).astype("float32")
        with np.errstate(all="ignore"):
            expected = evaluate(mod, [x, w])
        np.testing.assert_allclose(np.asarray(exe(x, w)), expected, rtol=1e-4, atol=2e-4, err_msg=f"n = {n}")
