"""Padding that is a halo: the kernel that stores the data stores what surrounds it, and nothing is copied."""

from __future__ import annotations

import numpy as np

import legato
from legato.interp import evaluate

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


def test_windows_that_stay_inside_are_not_guarded() -> None:
    """A pool whose size is rounded up, where nothing is left over: no condition is left either."""
    text = """
    #[version = "0.0.5"]
    def @main(%x: Tensor[(1, 16, 13, 13), float32]) {
      nn.max_pool2d(%x, pool_size=[3, 3], strides=[2, 2], ceil_mode=True)
    }"""
    mod = legato.parse(text)
    exe = legato.compile(mod, keep=("lower",))
    assert "select" not in exe.module_after("lower")
    x = np.random.default_rng(0).standard_normal((1, 16, 13, 13)).astype("float32")
    np.testing.assert_array_equal(exe(x), evaluate(mod, [x]))
