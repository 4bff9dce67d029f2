"""Winograd's algorithm as stages: it is found by structure alone, and means what the sum that it replaces means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Expr, const, floordiv
from legato.base.target import TARGETS
from legato.lower.algorithms.cook_toom import F1, F2, F4, Schemes
from legato.lower.algorithms.winograd import Window, detect, winograd
from legato.te.lower import to_tir
from legato.te.tensor import Stage, Tensor, placeholder, reduce
from legato.tir import interp
from legato.tir.buffer import Layout
from tests.programs.settings import examples

TARGET = TARGETS["x86-64-v4"]


def convolution(
    shape: Sequence[int], outs: int, order: str = "OIHW", stride: int = 1, dilation: int = 1, taps: int = 3
) -> tuple[Tensor, Tensor, Tensor]:
    """Data [n, h, w, c], weights in `order`, and their convolution as one reduction."""
    n, h, w, c = shape
    x = placeholder("x", shape, "float64")
    sizes = {"O": outs, "I": c, "H": taps, "W": taps}
    weights = placeholder("w", [sizes[letter] for letter in order], "float64")
    reach = (taps - 1) * dilation

    def body(b: Expr, o: Expr, i: Expr, j: Expr, u: Expr, v: Expr, k: Expr) -> Expr:
        at = {"O": o, "I": k, "H": u, "W": v}
        data = x[b, i * stride + u * dilation, j * stride + v * dilation, k]
        return data * weights[tuple(at[letter] for letter in order)]

    out = (n, outs, (h - reach - 1) // stride + 1, (w - reach - 1) // stride + 1)
    return x, weights, reduce("sum", out, (taps, taps, c), body, "y")


def found(y: Tensor, *constants: Tensor) -> Window | None:
    stage = y.stage
    assert isinstance(stage, Stage)
    assert stage.reduction is not None
    return detect(stage.body, stage.axes, stage.reduction, constants)


def run(y: Tensor, x: Tensor, w: Tensor, arrays: Sequence[np.ndarray]) -> np.ndarray:
    out = np.zeros([int(str(d)) for d in y.shape])
    assert interp.run(to_tir([y], [x, w], "f"), [*arrays, out]) == 0
    return out


@examples(12, fuzz=False)
@given(st.integers(1, 2), st.integers(3, 9), st.integers(3, 9), st.integers(1, 3), st.integers(1, 3),
       st.permutations("OIHW"), st.tuples(*[st.sampled_from((F1, F2, F4))] * 2))  # fmt: skip
def test_stages_mean_the_sum(n: int, h: int, w: int, c: int, outs: int, order: list[str], schemes: Schemes) -> None:
    x, weights, y = convolution((n, h, w, c), outs, "".join(order))
    window = found(y, weights)
    assert window is not None
    rng = np.random.default_rng(h * w)
    arrays = [rng.standard_normal([int(str(d)) for d in t.shape]) for t in (x, weights)]
    stages = winograd(window, schemes, TARGET)
    assert np.allclose(run(stages.result, x, weights, arrays), run(y, x, weights, arrays), rtol=0, atol=1e-12)


def test_roles_of_the_axes() -> None:
    _, weights, y = convolution((2, 6, 7, 4), 5)
    window = found(y, weights)
    assert window is not None
    assert isinstance(y.stage, Stage)
    batch, channel, down, across = y.stage.axes
    assert (window.batch, window.channel) == ((batch,), channel)
    assert [axis for axis, _ in window.slides] == [down, across]
    assert window.reduced.extent is const(4)


@pytest.mark.parametrize("options", [{"stride": 2}, {"dilation": 2}, {"taps": 2}, {"taps": 5}], ids=str)
def test_other_windows(options: dict[str, int]) -> None:
    _, weights, y = convolution((1, 9, 9, 4), 4, **options)
    assert found(y, weights) is None


def test_weights_that_are_no_constants() -> None:
    _, _, y = convolution((1, 9, 9, 4), 4)
    assert found(y) is None


def test_data_whose_channels_do_not_lie_along_memory() -> None:
    x, weights, y = convolution((1, 9, 9, 4), 4)
    x.layout = Layout((0, 3, 1, 2))
    assert found(y, weights) is None


def test_groups_depthwise_and_other_reductions() -> None:
    x = placeholder("x", (9, 9, 8), "float64")
    w = placeholder("w", (8, 4, 3, 3), "float64")
    groups = reduce("sum", (8, 7, 7), (3, 3, 4), lambda o, i, j, u, v, k: x[i + u, j + v, floordiv(o, const(4)) * 4 + k]
                    * w[o, k, u, v])  # fmt: skip
    depthwise = reduce("sum", (8, 7, 7), (3, 3), lambda o, i, j, u, v: x[i + u, j + v, o] * w[o, 0, u, v])
    largest = reduce("max", (8, 7, 7), (3, 3, 4), lambda o, i, j, u, v, k: x[i + u, j + v, k] * w[o, k, u, v])
    begun = reduce("sum", (8, 7, 7), (3, 3, 4), lambda o, i, j, u, v, k: x[i + u, j + v, k] * w[o, k, u, v],
                   init=const(1.0, x.dtype))  # fmt: skip
    diagonal = reduce("sum", (8, 7, 7), (3, 3, 4), lambda o, i, j, u, v, k: x[i + u, i + v, k] * w[o, k, u, v])
    for y in (groups, depthwise, largest, begun, diagonal):
        assert found(y, w) is None
