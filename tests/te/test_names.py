"""Tensor expressions under the names of tvm.te mean what NumPy does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from legato import te
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.tir import interp

Array = np.ndarray[Any, Any]
N, M = 3, 4
X = np.linspace(-2, 2, N * M, dtype=np.float32).reshape(N, M)
K = np.arange(N * M, dtype=np.int32).reshape(N, M) - 5


def _run(make: Callable[..., Any], shape: tuple[int, ...]) -> Array:
    """What `make` gives for placeholders of X and K and their symbolic dims."""
    n, m = te.var("n"), te.var("m")
    x, k = te.placeholder((n, m), name="x"), te.placeholder((n, m), "int32", name="k")
    found = make(x, k, n, m)
    func = te.create_prim_func([x, k, found])
    out = np.zeros(shape, found.tensor.dtype.numpy)
    assert interp.run(func, [X, K, out, N, M]) == 0
    return out


def _map(element: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, k, n, m: te.compute((n, m), lambda i, j: element(x, k, i, j, n, m))


i, j = np.indices((N, M))
ELEMENTS: list[tuple[Callable[..., Any], Any]] = [
    (lambda x, k, i, j, n, m: x[i, j] * 2 + 1.5 - k[i, j], X * 2 + 1.5 - K),
    (lambda x, k, i, j, n, m: 1 / (3.0 - x[i, j]), 1 / (3 - X)),
    (lambda x, k, i, j, n, m: -x(i, j) ** 2, -(X**2)),
    (lambda x, k, i, j, n, m: te.if_then_else(i == j, x[i, j], 0.0), np.where(i == j, X, 0)),
    (lambda x, k, i, j, n, m: te.if_then_else(te.all(i > 0, j != 1, k[i, j] <= 3), 1, 2),
     np.where((i > 0) & (j != 1) & (K <= 3), 1, 2)),
    (lambda x, k, i, j, n, m: te.if_then_else(te.any(i < 1, ~(j >= 1)), 1.0, x[i, j]),
     np.where((i < 1) | ~(j >= 1), 1, X)),
    (lambda x, k, i, j, n, m: n - 1 - i + m * j, N - 1 - i + M * j),
    (lambda x, k, i, j, n, m: x[n - 1 - i, (j + 1) % m], X[N - 1 - i, (j + 1) % M]),
    (lambda x, k, i, j, n, m: k[i, j] // 3 * 10 + k[i, j] % 3, K // 3 * 10 + K % 3),
    (lambda x, k, i, j, n, m: te.truncdiv(k[i, j], 3) * 10 + te.truncmod(k[i, j], 3),
     np.trunc(K / 3) * 10 + np.fmod(K, 3)),
    (lambda x, k, i, j, n, m: (k[i, j] & 6) | (k[i, j] ^ 1) << 2, (K & 6) | ((K ^ 1) << 2)),
    (lambda x, k, i, j, n, m: te.max(te.min(x[i, j], 1.0), k[i, j].astype("float32")), np.maximum(np.minimum(X, 1), K)),
    (lambda x, k, i, j, n, m: te.log2(te.exp(x[i, j])) + te.log10(te.const(100.0)), X / math.log(2) + 2),
    (lambda x, k, i, j, n, m: te.floor(x[i, j]) + te.abs(te.trunc(x[i, j])), np.floor(X) + np.abs(np.trunc(X))),
    (lambda x, k, i, j, n, m: te.sigmoid(x[i, j]) + te.erf(0.0 * x[i, j]), 1 / (1 + np.exp(-X))),
    (lambda x, k, i, j, n, m: te.isnan(te.sqrt(x[i, j])), X < 0),
    (lambda x, k, i, j, n, m: te.max_value("int32") - te.min_value("int8").astype("int32") * 0 + k[i, j] * 0,
     2**31 - 1 + K * 0),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(ELEMENTS)))
def test_elements(case: int) -> None:
    element, wanted = ELEMENTS[case]
    np.testing.assert_allclose(_run(_map(element), (N, M)), wanted, rtol=2e-6)


def _total(combine: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    def make(x: Any, k: Any, n: Any, m: Any) -> Any:
        axis = te.reduce_axis((1, m), "r")
        where = {"where": x[0, axis] > 0} if more.pop("guarded", False) else {}
        return te.compute((n,), lambda i: combine(x[i, axis], axis=axis, **where, **more))

    return make


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (_total(te.sum), X[:, 1:].sum(1)),
        (_total(te.prod), X[:, 1:].prod(1)),
        (_total(te.max), X[:, 1:].max(1)),
        (_total(te.min, init=-9.0), np.full(N, -9)),
        (_total(te.sum, guarded=True), np.where(X[0, 1:] > 0, X[:, 1:], 0).sum(1)),
    ],
)  # fmt: skip
def test_reductions(make: Callable[..., Any], wanted: Array) -> None:
    np.testing.assert_allclose(_run(make, (N,)), wanted, rtol=2e-6)


def test_several_results_and_several_axes() -> None:
    x = te.placeholder((N, M), name="x")
    first, second = te.compute((N, M), lambda i, j: (x[i, j] + 1, i * 2 + j))
    a, b = te.reduce_axis((0, N)), te.reduce_axis((0, M))
    total = te.compute((), lambda: te.sum(first[a, b], axis=[a, b]))
    assert (first.shape, first.ndim, first.dtype, second.dtype) == ((N, M), 2, "float32", "int64")
    outs = [np.zeros((N, M), np.int64), np.zeros((), np.float32)]
    assert interp.run(te.create_prim_func([x, second, total]), [X, *outs]) == 0
    np.testing.assert_array_equal(outs[0], i * 2 + j)
    np.testing.assert_allclose(outs[1], (X + 1).sum(), rtol=1e-6)


x0 = te.placeholder((4,), name="x0")
k0 = te.reduce_axis((0, 4), "k")
WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: te.compute((4,), lambda i: te.sum(x0[k0], axis=k0) + 1.0), "a sum inside of an expression"),
    (lambda: te.compute((4,), lambda i: 1 if i == 2 else 0), "known when the program runs"),
    (lambda: te.compute((4,), lambda i, j: x0[i]), "a tensor of rank 1 from a function of 2 indices"),
    (lambda: te.compute((4,), lambda i: x0[i, i]), "x0 is of rank 1, got 2 indices"),
    (lambda: te.compute((4,), lambda i: x0[x0[i]]), "an index of x0 is float32, wanted an integer"),
    (lambda: te.compute((4,), lambda i: 2 * te.var("n") * x0[i]), "operands of . differ in dtype"),
    (lambda: te.compute((4,), lambda i: te.sum(x0[i], axis=i)), "te.reduce_axis"),
    (lambda: te.compute((4,), lambda i: te.exp(i)), "exp of index"),
    (lambda: te.compute((4,), lambda i: x0[k0]), "nothing is reduced over k"),
    (lambda: te.compute((), lambda: te.sum(x0[k0] > 0.0, axis=k0)), "te.sum of bool"),
    (lambda: te.compute((4,), lambda i: ~x0[i]), "`~` of float32"),
    (lambda: te.compute((4,), lambda i: 2**40), "1099511627776 does not fit into int32"),
    (lambda: te.reduce_axis(4), "an axis from 4"),
    (lambda: te.const("x"), "te.const of 'x'"),
    (lambda: te.placeholder((4, -1)), "the extents 4, -1"),
    (lambda: te.create_prim_func([te.compute((4,), lambda i: x0[i])]), "x0 is not among its tensors"),
    (lambda: te.create_prim_func([x0]), "it computes nothing"),
    (lambda: te.var("n", "float32"), "dims are integers"),
    (lambda: te.placeholder((1.5,)), "an extent is 1.5"),
    (lambda: iter(x0), "cannot be iterated over"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_what_is_none_says_so(case: int) -> None:
    act, message = WRONG[case]
    with pytest.raises((TypeCheckError, TypeError), match=message):
        act()


def test_names_that_there_are_not() -> None:
    with pytest.raises(UnsupportedError, match=r"there is no te\.extern: a tensor program calls nothing"):
        te.extern  # noqa: B018
    with pytest.raises(AttributeError, match="te has no compuet"):
        te.compuet  # noqa: B018
    assert "compute" in dir(te)
