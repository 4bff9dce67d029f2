"""Modules written as scripts: compiled = interpreted = NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.interp import evaluate
from legato.ir.module import Module
from legato.script import ir as I
from legato.script import parse
from legato.script import relax as R
from legato.script import tir as T


@I.ir_module
class Mlp:
    @T.prim_func(private=True)
    def linear(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        M, N, K = T.int64(), T.int64(), T.int64()
        X = T.match_buffer(x, (M, K), "float32")
        W = T.match_buffer(w, (K, N), "float32")
        B = T.match_buffer(b, (N,), "float32")
        Z = T.match_buffer(z, (M, N), "float32")
        Y = T.alloc_buffer((M, N), "float32")
        for i, j, k in T.grid(M, N, K):
            with T.block("Y"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[v_i, v_j] = T.float32(0.0)
                Y[v_i, v_j] = Y[v_i, v_j] + X[v_i, v_k] * W[v_k, v_j]
        for i, j in T.grid(M, N):
            with T.block("Z"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                Z[v_i, v_j] = Y[v_i, v_j] + B[v_j]

    @T.prim_func(private=True)
    def relu(x: T.handle, y: T.handle):
        M, N = T.int64(), T.int64()
        X = T.match_buffer(x, (M, N), "float32")
        Y = T.match_buffer(y, (M, N), "float32")
        for i, j in T.grid(M, N):
            with T.block("Y"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                Y[v_i, v_j] = T.max(X[v_i, v_j], T.float32(0.0))

    @R.function
    def main(
        x: R.Tensor(("n", 784), dtype="float32"),
        w0: R.Tensor((784, 256), dtype="float32"),
        b0: R.Tensor((256,), dtype="float32"),
        w1: R.Tensor((256, 10), dtype="float32"),
        b1: R.Tensor((10,), dtype="float32"),
    ) -> R.Tensor(("n", 10), dtype="float32"):
        cls = Mlp
        n = T.int64()
        with R.dataflow():
            lv = R.call_tir(cls.linear, (x, w0, b0), out_sinfo=R.Tensor((n, 256), dtype="float32"))
            lv1 = R.call_tir(cls.relu, (lv,), out_sinfo=R.Tensor((n, 256), dtype="float32"))
            lv2 = R.call_tir(cls.linear, (lv1, w1, b1), out_sinfo=R.Tensor((n, 10), dtype="float32"))
            R.output(lv2)
        return lv2


@R.function
def relax_mlp(
    data: R.Tensor(("n", 784), dtype="float32"),
    w0: R.Tensor((784, 128), dtype="float32"),
    b0: R.Tensor((128,), dtype="float32"),
    w1: R.Tensor((128, 10), dtype="float32"),
    b1: R.Tensor((10,), dtype="float32"),
) -> R.Tensor(("n", 10), dtype="float32"):
    with R.dataflow():
        lv0 = R.matmul(data, w0) + b0
        lv1 = R.nn.relu(lv0)
        lv2 = R.matmul(lv1, w1) + b1
        R.output(lv2)
    return lv2


def numpy_mlp(data: Any, w0: Any, b0: Any, w1: Any, b1: Any) -> Any:
    return np.maximum(data @ w0 + b0, 0) @ w1 + b1


@pytest.mark.parametrize("n", [1, 7, 100])
def test_two_layers(n: int) -> None:
    rng = np.random.default_rng(n)
    for module, width in ((Mlp, 256), (Module.from_expr(relax_mlp), 128)):
        shapes = (n, 784), (784, width), (width,), (width, 10), (10,)
        args = [rng.standard_normal(s, np.float32) for s in shapes]
        wanted = numpy_mlp(*(a.astype(np.float64) for a in args))
        np.testing.assert_allclose(legato.compile(module)(*args), wanted, rtol=1e-4, atol=1e-3)
        if n == 1 or width == 128:
            np.testing.assert_allclose(evaluate(module, args), wanted, rtol=1e-4, atol=1e-3)


def module(body: str, *, out: str = '(n,), "float32"', dtype: str = "float32", more: str = "") -> Module:
    """A module whose kernel computes Y of shape `out` from X of n elements and W of n × m."""
    lines = "".join(f"        {line}\n" for line in body.strip("\n").splitlines())
    return parse(f'''
@I.ir_module
class Module:
    @T.prim_func
    def k(X: T.Buffer(("n",), "{dtype}"), W: T.Buffer(("n", "m"), "float32"), Y: T.Buffer({out.replace("(n", '("n"')})):
        n, m = T.int64(), T.int64()
{lines}
    @R.function
    def main(x: R.Tensor(("n",), "{dtype}"), w: R.Tensor(("n", "m"), "float32")):
        n, m = T.int64(), T.int64()
        return R.call_tir(Module.k, (x, w), out_sinfo=R.Tensor({out}){more})
''')


# Kernels, and what they give for x of n elements and w of n × m.
KERNELS: list[tuple[str, Any, dict[str, str]]] = [
    ("for i in range(n):\n    Y[i] = X[i] * 2.0 + 1", lambda x, w: x * 2 + 1, {}),
    ("for i in T.parallel(n):\n    Y[i] = T.exp(-X[i])", lambda x, w: np.exp(-x), {}),
    ("for i in T.serial(1, n):\n    Y[i] = X[i - 1]", lambda x, w: np.r_[x[:1] * 0, x[:-1]], {}),
    ("for i in range(0, n, 2):\n    Y[i] = X[i]", lambda x, w: np.where(np.arange(len(x)) % 2, 0, x), {}),
    ("for i in range(n):\n    Y[i] = T.if_then_else(i > 0, X[T.max(i - 1, 0)], 5.0)",
     lambda x, w: np.r_[np.full(min(1, len(x)), 5), x[:-1]], {}),
    ("for i in range(n):\n    if i % 2 == 0 and i < n - 1:\n        Y[i] = X[i]\n    else:\n        Y[i] = 3.0",
     lambda x, w: np.where((np.arange(len(x)) % 2 == 0) & (np.arange(len(x)) < len(x) - 1), x, 3), {}),
    ("for i, k in T.grid(n, m):\n    with T.sblock('Y'):\n        vi, vk = T.axis.remap('SR', [i, k])\n"
     "        with T.init():\n            Y[vi] = 0.0\n        Y[vi] += W[vi, vk]", lambda x, w: w.sum(1), {}),
    ("for k, i in T.grid(m, n):\n    with T.sblock('Y'):\n        vi = T.axis.spatial(n, i)\n"
     "        vk = T.axis.reduce(m, k)\n        T.reads(W[vi, 0:m])\n        T.writes(Y[vi])\n        with T.init():\n"
     "            Y[vi] = T.min_value('float32')\n        Y[vi] = T.max(Y[vi], W[vi, vk])",
     lambda x, w: w.max(1, initial=np.finfo(np.float32).min) if w.shape[1] else x * 0, {}),
    ("for io, ii in T.grid((n + 3) // 4, 4):\n    with T.sblock('Y'):\n        vi = T.axis.spatial(n, io * 4 + ii)\n"
     "        T.where(io * 4 + ii < n)\n        Y[vi] = X[vi]", lambda x, w: x, {}),
    ("for io, ii in T.grid((n + 3) // 4, 4):\n    with T.sblock('Y'):\n        vi = T.axis.spatial(n, io * 4 + ii)\n"
     "        Y[vi] = X[vi]", lambda x, w: x, {}),  # the domain guards it
    ("Z = T.alloc_buffer((n + 1,), 'float32')\nfor i in range(n):\n    Z[i + 1] = X[i]\nfor i in range(n):\n"
     "    Y[i] = T.if_then_else(i == 0, 0.0, Z[i])", lambda x, w: np.r_[x[:1] * 0, x[:-1]], {}),
    ("for i in T.parallel(n):\n    t = T.alloc_buffer((1,), 'float32', scope='local')\n    t[0] = X[i]\n"
     "    Y[i] = t[0] * t[0]", lambda x, w: x * x, {}),
    ("for i in range(n):\n    s: T.float32 = 0.0\n    for k in range(m):\n        s = s + W[i, k]\n    Y[i] = s",
     lambda x, w: w.sum(1), {}),
    ("for i in range(n):\n    a = X[i]\n    b: T.float32 = a + 1.0\n    Y[i] = a * b", lambda x, w: x * (x + 1), {}),
    ("for i in range(n):\n    Y[i] = T.Cast('float32', i) / 2", lambda x, w: np.arange(len(x)) / 2, {}),
    ("for i in range(n):\n    Y[i] = i + X[i]", lambda x, w: x + np.arange(len(x), dtype=np.int32),
     {"dtype": "int32", "out": '(n,), "int32"'}),
    ("for i in range(n):\n    Y[i] = T.truncdiv(X[i], 3) * 10 + T.truncmod(X[i], 3)",
     lambda x, w: np.trunc(x / 3).astype(np.int32) * 10 + np.fmod(x, 3), {"dtype": "int32", "out": '(n,), "int32"'}),
    ("for i in range(n):\n    Y[i] = (X[i] << 2) ^ (X[i] & 5) | (X[i] >> 1)",
     lambda x, w: ((x << 2) ^ (x & 5)) | (x >> 1), {"dtype": "int32", "out": '(n,), "int32"'}),
    ("for i in range(n):\n    Y[i] = not (X[i] > 0.5) or X[i] == 2.0", lambda x, w: ~(x > 0.5) | (x == 2),
     {"out": '(n,), "bool"'}),
    ("for i in range(n):\n    Y[i] = T.sigmoid(X[i]) + T.sqrt(T.abs(X[i])) + T.power(X[i], 2.0) + T.floor(X[i])",
     lambda x, w: 1 / (1 + np.exp(-x)) + np.sqrt(np.abs(x)) + x**2 + np.floor(x), {}),
    ("for i, j in T.grid(n, n):\n    with T.sblock('Y'):\n        vi, vj = T.axis.remap('SS', [i, j])\n"
     "        Y[vi, vj] = T.Select(vi >= vj, X[vi], X[vj])",
     lambda x, w: np.where(np.arange(len(x))[:, None] >= np.arange(len(x)), x[:, None], x),
     {"out": '(n, n), "float32"'}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "wanted", "how"), KERNELS)
def test_kernels(body: str, wanted: Any, how: dict[str, str]) -> None:
    mod = module(body, **how)
    exe = legato.compile(mod)
    rng = np.random.default_rng(0)
    for n, m in ((0, 3), (1, 0), (1, 1), (5, 4), (9, 2)):
        x = (rng.standard_normal(n) * 4).astype(how.get("dtype", "float32"))
        w = rng.standard_normal((n, m)).astype(np.float32)
        given = np.asarray(wanted(x, w))
        interpreted = np.asarray(evaluate(mod, [x, w]))
        np.testing.assert_allclose(interpreted, given, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(np.asarray(exe(x, w)), interpreted, rtol=2e-6, atol=2e-6)


def test_meta_programming() -> None:
    """What is around a function is known to it: numbers, and functions of scalars."""

    def times(a: Any, count: int) -> Any:
        return a if count == 1 else a + times(a, count - 1)

    width, factor = 8, 3

    @T.prim_func
    def scaled(X: T.Buffer((width,), "float32"), Y: T.Buffer((width,), "float32")):
        for i in T.vectorized(width):
            if factor > 1:
                Y[i] = times(X[i], factor)
            else:
                Y[i] = X[i]

    assert "if" not in str(scaled)
    assert "X[i] + (X[i] + X[i])" in str(scaled)


IN_PLACE = """
@I.ir_module
class Module:
    @T.prim_func
    def update(X: T.Buffer(("n",), "float32"), W: T.Buffer(("n",), "float32"), S: T.Buffer((), "float32")):
        n = T.int64()
        for i in KIND(n):
            X[i] = X[i] * W[i] + T.float32(i)
        for i in KIND(1):
            S[()] = 3.0

    @R.function
    def main(x: R.Tensor(("n",), "float32"), w: R.Tensor(("n",), "float32")):
        n = T.int64()
        out = R.call_tir_inplace(Module.update, (x, w), [0, -1],
                                 out_sinfo=[R.Tensor((n,), "float32"), R.Tensor((), "float32")])
        return (out[0], x, out[1])
"""


@pytest.mark.parametrize("kind", ["range", "T.serial", "T.parallel"])
def test_calls_in_place_leave_their_arguments(kind: str) -> None:
    mod = parse(IN_PLACE.replace("KIND", kind))
    x, w = np.arange(5, dtype=np.float32), np.full(5, 2, np.float32)
    for run in (legato.compile(mod), lambda *a: evaluate(mod, [*a])):
        found = [np.asarray(a) for a in run(x, w)]
        np.testing.assert_array_equal(found[0], np.arange(5) * 3)
        np.testing.assert_array_equal(found[1], x)
        np.testing.assert_array_equal(found[2], 3)
    np.testing.assert_array_equal(x, np.arange(5))
