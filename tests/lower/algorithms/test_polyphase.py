"""Transposed convolutions by phases: nothing is multiplied by the zeros between, and the sums are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import legato
from legato.interp import evaluate
from tests.programs.settings import examples


def program(
    rank: int, taps: int, stride: int, padding: int, extra: int, dilation: int, channels: int = 6, finite: bool = True
) -> str:
    """A transposed convolution of `rank` dimensions and a relu, of data with so many channels, to 5; whether weights
    are said to be finite."""
    sizes, kernel = ", ".join(["7", "4", "3"][:rank]), ", ".join([str(taps)] * rank)

    def each(value: int) -> str:
        return f"[{', '.join([str(value)] * rank)}]"

    return f"""#[version = "0.0.5"]
    def @main(%x: Tensor[(2, {channels}, {sizes}), float32], %w: Tensor[({channels}, 5, {kernel}), float32]) {{
      nn.relu(nn.conv{rank}d_transpose(%x, %w, strides={each(stride)}, padding={each(padding)},
                                       output_padding={each(extra)}, dilation={each(dilation)}, finite_weight={finite}))
    }}"""


@examples(25, fuzz=False)
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.integers(0, 1), st.integers(1, 2),
       st.sampled_from((1, 6)), st.booleans())  # fmt: skip
def test_phases_are_the_transposed_convolution(
    rank: int, taps: int, stride: int, padding: int, extra: int, dilation: int, channels: int, finite: bool
) -> None:
    if padding > (taps - 1) * dilation // 2 or (rank == 3 and taps > 3):
        return
    mod = legato.parse(program(rank, taps, stride, padding, extra, dilation, channels, finite))
    x, w = (np.random.default_rng(n).standard_normal(i.shape).astype("float32") for n, i in enumerate(params(mod)))
    expected = evaluate(mod, [x, w], float64=True)
    np.testing.assert_allclose(legato.compile(mod)(x, w), expected, atol=1e-5 * max(1, np.abs(expected).max()))


def params(mod: legato.Module) -> list[np.ndarray]:
    """Arrays of the shapes of main's parameters."""
    return [np.zeros(p.ty.static_shape()) for p in mod["main"].params]  # type: ignore[union-attr]  # tensors


@pytest.mark.parametrize(("taps", "stride", "padding"), [(2, 2, 0), (4, 2, 1), (3, 2, 1), (3, 3, 0)])
def test_no_remainder_is_tested_for(taps: int, stride: int, padding: int) -> None:
    mod = legato.parse(program(2, taps, stride, padding, 0, 1))
    exe = legato.compile(mod, keep=("lower",))
    kernels = [k for k in exe.module_after("lower").split("kernel ") if k.startswith("@conv2d_transpose_0(")]
    assert len(kernels) == 1
    assert f"% {stride} == 0" not in kernels[0]
    assert "select" not in kernels[0]


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 4), (4, 1), ("n", 1), ("n", 2)])
@pytest.mark.parametrize("channels", [2, "c"])
def test_phases_of_images_narrower_than_the_stride(height: int | str, width: int, channels: int | str) -> None:
    """Some of their phases have no elements."""
    mod = legato.parse(f"""#[version = "0.0.5"]
    def @main(%x: Tensor[(1, {channels}, {height}, {width}), float32], %w: Tensor[({channels}, 2, 2, 1), float32]) {{
      nn.conv2d_transpose(%x, %w, strides=[3, 3])
    }}""")
    noise = np.random.default_rng(0)
    h, c = (2 if isinstance(d, str) else d for d in (height, channels))
    x, w = (noise.standard_normal(shape).astype(np.float32) for shape in ((1, c, h, width), (c, 2, 2, 1)))
    np.testing.assert_allclose(legato.compile(mod)(x, w), evaluate(mod, [x, w]), rtol=1e-5, atol=1e-6)
