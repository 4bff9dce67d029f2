"""The functions of stated errors keep to these."""

from __future__ import annotations

import math

import numpy as np
import pytest

import legato
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.module import Module

CASES = {  # the function, the interval, the error
    "fast_exp": (np.exp, (-87.0, 88.0), 6e-5),
    "fast_tanh": (np.tanh, (-20.0, 20.0), 1e-6),
    "fast_erf": (np.vectorize(math.erf), (-20.0, 20.0), 1e-6),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_error_is_as_stated(name: str, compiled: bool) -> None:
    f, (low, high), error = CASES[name]
    near = np.geomspace(1e-30, min(high, -low), 20000)
    points = np.concatenate([np.linspace(low, high, 40000), near, -near]).astype(np.float32)
    b = Builder()
    x = b.var("x", (len(points),))
    mod = Module.from_expr(b.function([x], b.op(name)(x)))
    got = np.asarray(legato.compile(mod)(points) if compiled else evaluate(mod, [points]))
    wanted = f(points.astype(np.float64))
    assert float(np.abs(got / wanted - 1).max()) < error


def test_beyond_the_interval_functions_stay() -> None:
    b = Builder()
    x = b.var("x", (4,))
    mod = Module.from_expr(b.function([x], b.op("fast_exp")(x)))
    low, least, high, most = evaluate(mod, [np.array([-np.inf, -87, 88, np.inf], np.float32)])
    assert low == least > 0
    assert high == most < np.inf


def test_softmax_of_masks() -> None:
    b = Builder()
    x = b.var("x", (2, 3))
    rows = np.array([[0, -np.inf, 1], [5, 5, -1e9]], np.float32)
    values = [
        evaluate(Module.from_expr(b.function([x], b.op(n)(x))), [rows]) for n in ("nn.softmax", "nn.fast_softmax")
    ]
    np.testing.assert_allclose(values[1], values[0], rtol=2e-4, atol=1e-37)
