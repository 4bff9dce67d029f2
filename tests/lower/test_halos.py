"""Padding that is a halo: the kernel that stores the data stores what surrounds it, and nothing is copied."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.arith.expr import const
from legato.base import dtype as dt
from legato.interp import evaluate
from legato.ops._tensors import as_int
from legato.ops._window import Window, pad_stage
from legato.te.tensor import placeholder

POOLED = """
#[version = "0.0.5"]
def @main(%x: Tensor[(1, 16, 9, 11), float32], %w: Tensor[(16, 16, 1, 1), float32]) {
  %0 = nn.conv2d(%x, %w);
  %1 = nn.max_pool2d(%0, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1]);
  exp(%1)
}
"""


def test_a_pool_reads_its_padding_from_a_halo() -> None:
    mod = legato.parse(POOLED)
    exe = legato.compile(mod, keep=("lower",))
    text = exe.module_after("lower")
    assert "halo_value=-inf" in text
    assert "pad_" not in text
    random = np.random.default_rng(0)
    x, w = (random.random(shape).astype("float32") for shape in ((1, 16, 9, 11), (16, 16, 1, 1)))
    np.testing.assert_allclose(exe(x, -w), evaluate(mod, [x, -w]), rtol=1e-5)  # zeros would win against what is below


@given(
    st.integers(1, 40), st.integers(1, 5), st.integers(1, 4), st.integers(1, 2), st.integers(0, 2), st.integers(0, 2)
)
def test_what_is_padded_is_what_windows_reach(
    extent: int, kernel: int, stride: int, dilation: int, before: int, after: int
) -> None:
    """Of windows whose number is rounded up, only those that reach beyond the data make it be padded."""
    w = Window(const(extent), const(kernel), stride, dilation, before, after, ceil=True)
    if w.is_empty:
        return
    ends = [n * stride + (kernel - 1) * dilation - before for n in range(as_int(w.count))]
    assert w.overhangs == any(end >= extent for end in ends)
    data = placeholder("x", (2, extent), dt.float32)
    padded = pad_stage(data, [1], [w], const(0, dt.float32))
    assert (padded is data) == (before == 0 and not w.overhangs)


@pytest.mark.parametrize("pool", ["max", "avg"])
def test_windows_that_stay_inside_are_not_guarded(pool: str) -> None:
    """A pool whose size is rounded up, where nothing is left over: no condition is left either."""
    text = f"""
    #[version = "0.0.5"]
    def @main(%x: Tensor[(1, 16, 13, 13), float32]) {{
      nn.{pool}_pool2d(%x, pool_size=[3, 3], strides=[2, 2], ceil_mode=True)
    }}"""
    mod = legato.parse(text)
    exe = legato.compile(mod, keep=("lower",))
    assert "select" not in exe.module_after("lower")
    x = np.random.default_rng(0).standard_normal((1, 16, 13, 13)).astype("float32")
    np.testing.assert_allclose(exe(x), evaluate(mod, [x]), atol=1e-6)
