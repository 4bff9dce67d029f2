"""What a scan means: its plain loop program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.arith.expr import Expr, Var, const, fresh
from legato.base import dtype as dt
from legato.base.errors import InternalError
from legato.te.lower import to_tir
from legato.te.scan import scan
from legato.te.tensor import Tensor, compute, placeholder, reduce
from legato.tir import interp
from legato.tir.verify import verify

Array = np.ndarray[Any, Any]


def run(outputs: list[Tensor], inputs: list[Tensor], arrays: list[Array], *dims: int) -> list[Array]:
    """The outputs of the plain program."""
    func = to_tir(outputs, inputs, "f")
    verify(func)
    env = {v.name: d for v, d in zip([p for p in func.params if isinstance(p, Var)], dims, strict=True)}
    shapes = [[env[str(d)] if isinstance(d, Var) else int(d.value) for d in t.shape] for t in outputs]  # type: ignore[attr-defined]
    found = [np.zeros(s, np.float32) for s in shapes]
    assert interp.run(func, [*arrays, *found, *dims]) == 0
    return found


def test_states_change_all_at_once() -> None:
    x = placeholder("x", (2,), "float32")

    def step(t: Expr, a: Tensor, b: Tensor) -> Any:
        return [b, compute((2,), lambda i: a[i] + b[i])], [(a, (6, 2), lambda i: (t, i))]

    outputs = list(scan(6, [x, x], [], step))
    kept, a, b = run(outputs, [x], [np.ones(2, np.float32)])
    assert kept[:, 0].tolist() == [1, 1, 2, 3, 5, 8]
    assert (a[0], b[0]) == (13, 21)


def test_results_may_be_stored_backwards_and_steps_be_none() -> None:
    n = fresh("n")
    x, zero = placeholder("x", (n, 3), "float32"), placeholder("z", (3,), "float32")

    def step(t: Expr, total: Tensor) -> Any:
        after = compute((3,), lambda i: total[i] + x[n - 1 - t, i])
        return [after], [(after, (n, 3), lambda i: (n - 1 - t, i))]

    outputs = list(scan(n, [zero], [x], step))
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    kept, last = run(outputs, [x, zero], [array, np.zeros(3, np.float32)], 4)
    np.testing.assert_array_equal(kept, array[::-1].cumsum(0)[::-1])
    np.testing.assert_array_equal(last, array.sum(0))
    kept, last = run(outputs, [x, zero], [array[:0], np.full(3, 7, np.float32)], 0)
    assert kept.shape == (0, 3)
    assert last.tolist() == [7, 7, 7]


def test_a_step_with_a_product() -> None:
    w, h = placeholder("w", (3, 3), "float32"), placeholder("h", (3,), "float32")

    def step(t: Expr, s: Tensor) -> Any:
        return [reduce("sum", (3,), (3,), lambda i, k: w[i, k] * s[k])], []

    matrix = np.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]], np.float32)
    (last,) = run(list(scan(4, [h], [w], step)), [w, h], [matrix, np.arange(3, dtype=np.float32)])
    assert last.tolist() == [1, 2, 0]


def test_misuse_is_named() -> None:
    x, y = placeholder("x", (3,), "float32"), placeholder("y", (3,), "float32")
    with pytest.raises(InternalError, match="y, which a scan reads, is neither an input of it nor a stage"):
        scan(2, [x], [], lambda t, s: ([compute((3,), lambda i: s[i] + y[i])], []))
    with pytest.raises(InternalError, match="a state of a scan is"):
        scan(2, [x], [], lambda t, s: ([compute((3,), lambda i: const(1, dt.float64))], []))
