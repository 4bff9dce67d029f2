"""Simplified programs give what they gave."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.interp import evaluate
from legato.ir.module import Module
from legato.transform.pass_ import run
from legato.transform.simplify import Simplify


def grouped(shape: tuple[int, ...], groups: int, batch: str, attrs: str) -> Module:
    """Images whose channels are normalised in groups, as ONNX exporters write it; the norm is used twice."""
    sizes, length = ", ".join(map(str, shape)), int(np.prod(shape)) // groups if groups else 5
    factors = f"Tensor[({groups},), float32]"
    return legato.parse(f"""
#[version = "0.0.5"]
def @main(%x: Tensor[({batch}, {sizes}), float32], %g: {factors}, %b: {factors}) {{
  %0 = reshape(%x, newshape=[{batch}, {groups}, {length}], allowzero=True);
  %1 = nn.instance_norm(%0, %g, %b{attrs});
  (reshape(%1, newshape=[{batch}, {sizes}], allowzero=True), nn.relu(%1))
}}
""")


@pytest.mark.parametrize(
    ("shape", "groups", "attrs"),
    [
        ((6, 4, 5), 3, ""),
        ((6, 4, 5), 1, ", epsilon=0.1f"),
        ((6, 4, 5), 6, ", center=False"),
        ((6, 7), 2, ", scale=False"),
        ((6,), 3, ""),
        ((2, 3, 2, 2), 2, ", axis=-2"),
        ((6, 4, 5), 5, ""),  # groups that cut through channels
        ((0, 4, 5), 0, ""),
    ],
)
@pytest.mark.parametrize(("batch", "size"), [("2", 2), ("n", 2), ("n", 0), ("0", 0)])
def test_channels_are_normalised_in_groups(
    shape: tuple[int, ...], groups: int, attrs: str, batch: str, size: int
) -> None:
    mod, rng = grouped(shape, groups, batch, attrs), np.random.default_rng(0)
    x, gamma, beta = (rng.standard_normal(s).astype(np.float32) for s in ((size, *shape), (groups,), (groups,)))
    simpler = run(mod, (Simplify(),))
    for found, want in zip(evaluate(simpler, [x, gamma, beta]), evaluate(mod, [x, gamma, beta]), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
    is_norm_of_images = groups > 0 and shape[0] % groups == 0
    assert ("nn.group_norm" in str(simpler)) is is_norm_of_images
