"""Gradients of many operators in one program, compiled: as the interpreter has them, for extents that only the program
knows, and in 16 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.autodiff import vjp
from legato.base import dtype as dt
from legato.interp import evaluate

ELEMENTWISE = [
    "nn.relu(%x)", "nn.leaky_relu(%x)", "nn.elu(%x)", "nn.celu(%x, alpha=2.0)", "nn.selu(%x)", "nn.gelu(%x)",
    'nn.gelu(%x, approximate="tanh")', "nn.softplus(%x, beta=2.0)", "nn.hard_sigmoid(%x)", "nn.hard_swish(%x)",
    "nn.thresholded_relu(%x, alpha=0.5)", "nn.silu(%x)", "nn.mish(%x)", "nn.softsign(%x)", "clip(%x, a_min=-0.5)",
    "fast_exp(%x)", "fast_tanh(%x)", "fast_erf(%x)", "maximum(%x, %y)", "minimum(%x, %y)", "power(exp(%x), %y)",
    "floor_mod(%x, %y)", "mod(%x, %y)", "where(%x > %y, %x, %y)", "nn.prelu(%x, %y, axis=1)",
    "nn.bias_add(%x, %y, axis=1)", "full_like(%x, sum(%y))",
]  # fmt: skip
ALONG = [
    "max(%x, axis=[0])", "min(%x, axis=[1], keepdims=True)", "prod(%x, axis=[0])", "prod(%x)", "mean(%x)",
    "mean(%x, axis=[0])", "variance(%x, mean(%x, axis=[0], keepdims=True), axis=[0], unbiased=True)",
    "nn.softmax(%x, axis=0)", "nn.log_softmax(%x)", "nn.l2_normalize(%x, eps=1e-6, axis=[0])",
    "nn.lrn(%x, size=3, axis=0)", "cumsum(%x, axis=0)", "cumsum(%x, exclusive=True)", "cumprod(%x, axis=0)",
    "cumprod(%x, axis=1, exclusive=True)", "sort(%x, axis=0)", "topk(%x, k=2)",
    "linear_recurrence(%x, %x, axis=0, transposed=True)",
]  # fmt: skip


def values(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Any:
    """Quarters, in which products of few are exact."""
    return (rng.integers(-6, 7, shape) / 4 + 0.125).astype(dtype)


def like(value: Any, rng: np.random.Generator) -> Any:
    """A cotangent of a value."""
    if isinstance(value, tuple):
        return tuple(like(v, rng) for v in value)
    return value if value.dtype.kind in "iu" else values(value.shape, value.dtype, rng)


def assert_near(got: Any, want: Any, error: float) -> None:
    """Equal up to `error` of the largest element."""
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            assert_near(g, w, error)
        return
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    np.testing.assert_allclose(got, want, rtol=0, atol=error * max(1.0, np.abs(want).max(initial=0)))


@pytest.mark.parametrize(("dtype", "error"), [("float32", 2e-5), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("calls", [ELEMENTWISE, ALONG], ids=["elementwise", "along"])
@pytest.mark.shared(2)
def test_compiled_is_interpreted(calls: list[str], dtype: str, error: float) -> None:
    mod = legato.parse(f"""
    #[version = "0.0.5"]
    def @main(%x: Tensor[(n, 4), {dtype}], %y: Tensor[(4), {dtype}]) {{ ({", ".join(calls)}) }}
    """)
    gradient = vjp(mod)
    compiled = legato.compile(gradient)
    for n in (3, 1, 0):
        rng = np.random.default_rng(n)
        args = [values(shape, dt.dtype(dtype).numpy, rng) for shape in ((n, 4), (4,))]
        args.append(like(evaluate(mod, args), rng))
        assert_near(compiled(*args), evaluate(gradient, args), error)
