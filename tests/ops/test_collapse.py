"""collapse_sum_to where the program alone knows which axes were stretched."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, RunError
from legato.interp import evaluate

TEXT = """
#[version = "0.0.5"]
def @main(%x: Tensor[(2, n, k), float32], %like: Tensor[(m, j), float32]) {
  collapse_sum_to(%x, shape=[m, j])
}
"""


@pytest.mark.parametrize(("shape", "to"), [((2, 3, 4), (3, 4)), ((2, 3, 4), (1, 4)), ((2, 3, 4), (1, 1)),
                                           ((2, 1, 1), (1, 1)), ((2, 0, 3), (1, 3)), ((2, 0, 3), (0, 1))])  # fmt: skip
@pytest.mark.shared(3)
def test_the_axes_are_found_at_run_time(shape: tuple[int, ...], to: tuple[int, int]) -> None:
    x = np.random.default_rng(0).integers(-9, 9, shape).astype("float32")
    axes = tuple(n for n in (0, 1) if to[n] != shape[n + 1])
    wanted = x.sum(0).sum(axes, keepdims=True)
    mod = legato.parse(TEXT)
    like = np.zeros(to, "float32")
    assert np.array_equal(evaluate(mod, [x, like]), wanted)
    assert np.array_equal(legato.compile(mod)(x, like), wanted)


@pytest.mark.parametrize("to", [(2, 4), (3, 2), (0, 4)])
def test_a_shape_that_does_not_stretch_is_an_error_of_the_call(to: tuple[int, int]) -> None:
    x, like = np.zeros((2, 3, 4), "float32"), np.zeros(to, "float32")
    for run in (lambda: evaluate(legato.parse(TEXT), [x, like]), lambda: legato.compile(legato.parse(TEXT))(x, like)):
        with pytest.raises(RunError, match="collapsed dim"):
            run()


def test_more_dims_than_there_are_are_refused() -> None:
    with pytest.raises(CompileError, match="data of rank 1 cannot be summed to rank 2"):
        legato.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(3), float32]) { collapse_sum_to(%x, shape=[1, 3]) }')


def test_gradients_of_operands_whose_dims_may_be_one() -> None:
    mod = legato.parse("""
    #[version = "0.0.5"]
    def @main(%x: Tensor[(n, k), float64], %y: Tensor[(m, k), float64]) { sum(%x * %y) }
    """)
    gradient = legato.compile(legato.grad(mod))
    rng = np.random.default_rng(0)
    for n, m in ((3, 3), (3, 1), (1, 3), (1, 1), (0, 1)):
        x, y = rng.standard_normal((n, 2)), rng.standard_normal((m, 2))
        dx, dy = gradient(x, y)
        wide = np.ones((max(n, m) if n and m else 0, 2))
        stretched = (np.broadcast_to(y, wide.shape), np.broadcast_to(x, wide.shape))
        for got, part, like in zip((dx, dy), stretched, (x, y), strict=True):
            wanted = part if part.shape == like.shape else part.sum(0, keepdims=True)
            np.testing.assert_allclose(got, wanted, rtol=1e-13)


def test_no_gradient_flows_through_stop_gradient() -> None:
    mod = legato.parse("""
    #[version = "0.0.5"]
    def @main(%x: Tensor[(3), float32]) { sum(%x * stop_gradient(%x)) }
    """)
    x = np.array([1, -2, 3], "float32")
    value, gradients = legato.compile(legato.value_and_grad(mod))(x)
    assert value == 14
    assert np.array_equal(gradients[0], x)
