"""Measures tensor programs that are written by hand against operators: `python -m tools.bench.written`.

In alternating blocks, two threads: the same model once with `R.call_tir` of loops, once with operators. Exit code 1 if
outputs differ by more than rounding.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

import legato
from legato._version import __version__
from legato.bench.engines import Engine, legato_engine
from legato.script import parse
from tools.bench.pair import compare, machine

__all__ = ["main"]

LINEAR: Final = """
    @T.prim_func(private=True)
    def linear(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        M, N, K = T.int64(), T.int64(), T.int64()
        X, W = T.match_buffer(x, (M, K), "float32"), T.match_buffer(w, (K, N), "float32")
        B, Z = T.match_buffer(b, (N,), "float32"), T.match_buffer(z, (M, N), "float32")
        Y = T.alloc_buffer((M, N), "float32")
        for i, j, k in T.grid(M, N, K):
            with T.sblock("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = 0.0
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vk, vj]
        for i, j in T.grid(M, N):
            with T.sblock("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]
    @T.prim_func(private=True)
    def relu(x: T.handle, y: T.handle):
        M, N = T.int64(), T.int64()
        X, Y = T.match_buffer(x, (M, N), "float32"), T.match_buffer(y, (M, N), "float32")
        for i, j in T.grid(M, N):
            with T.sblock("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], 0.0)
"""
MATMUL: Final = """
    @T.prim_func
    def matmul(A: T.Buffer(("n", 256), "float32"), B: T.Buffer((256, 512), "float32"),
               C: T.Buffer(("n", 512), "float32")):
        n = T.int64()
        for i, j, k in T.grid(n, 512, 256):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
SOFTMAX: Final = """
    @T.prim_func
    def softmax(X: T.Buffer(("n", 1000), "float32"), Y: T.Buffer(("n", 1000), "float32")):
        n = T.int64()
        M, S = T.alloc_buffer((n,), "float32"), T.alloc_buffer((n,), "float32")
        for i, k in T.grid(n, 1000):
            with T.sblock("M"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    M[vi] = T.min_value("float32")
                M[vi] = T.max(M[vi], X[vi, vk])
        for i, k in T.grid(n, 1000):
            S[i] = S[i] + T.exp(X[i, k] - M[i])
        for i, j in T.grid(n, 1000):
            Y[i, j] = T.exp(X[i, j] - M[i]) / S[i]
"""
NORM: Final = """
    @T.prim_func
    def norm(X: T.Buffer(("n", 768), "float32"), G: T.Buffer((768,), "float32"), B: T.Buffer((768,), "float32"),
             Y: T.Buffer(("n", 768), "float32")):
        n = T.int64()
        S, Q = T.alloc_buffer((n,), "float32"), T.alloc_buffer((n,), "float32")
        for i, k in T.grid(n, 768):
            S[i] = S[i] + X[i, k]
        for i, k in T.grid(n, 768):
            Q[i] = Q[i] + (X[i, k] - S[i] / 768.0) * (X[i, k] - S[i] / 768.0)
        for i, j in T.grid(n, 768):
            Y[i, j] = (X[i, j] - S[i] / 768.0) * T.rsqrt(Q[i] / 768.0 + 1e-5) * G[j] + B[j]
"""
CONV: Final = """
    @T.prim_func
    def conv(X: T.Buffer((1, 64, 56, 56), "float32"), W: T.Buffer((64, 64, 3, 3), "float32"),
             Y: T.Buffer((1, 64, 56, 56), "float32")):
        P = T.alloc_buffer((1, 64, 58, 58), "float32")
        for n, c, h, w in T.grid(1, 64, 58, 58):
            P[n, c, h, w] = T.if_then_else(1 <= h and h < 57 and 1 <= w and w < 57, X[n, c, h - 1, w - 1], 0.0)
        for n, o, h, w, c, r, s in T.grid(1, 64, 56, 56, 64, 3, 3):
            Y[n, o, h, w] = Y[n, o, h, w] + P[n, c, h + r, w + s] * W[o, c, r, s]
"""
MLP: Final = (("n", 784), (784, 256), (256,), (256, 10), (10,))
CASES: Final[Mapping[str, tuple[str, tuple[tuple[str | int, ...], ...], str, str]]] = {
    "the example, n = 100": (
        LINEAR,
        MLP,
        """
        a = R.call_tir(cls.linear, (x0, x1, x2), out_sinfo=R.Tensor((n, 256), "float32"))
        b = R.call_tir(cls.relu, (a,), out_sinfo=R.Tensor((n, 256), "float32"))
        y = R.call_tir(cls.linear, (b, x3, x4), out_sinfo=R.Tensor((n, 10), "float32"))""",
        "\n        y = R.matmul(R.nn.relu(R.matmul(x0, x1) + x2), x3) + x4",
    ),
    "matmul": (
        MATMUL,
        (("n", 256), (256, 512)),
        '\n        y = R.call_tir(cls.matmul, (x0, x1), out_sinfo=R.Tensor((n, 512), "float32"))',
        "\n        y = R.matmul(x0, x1)",
    ),
    "softmax": (
        SOFTMAX,
        (("n", 1000),),
        '\n        y = R.call_tir(cls.softmax, (x0,), out_sinfo=R.Tensor((n, 1000), "float32"))',
        "\n        y = R.nn.softmax(x0)",
    ),
    "layer norm": (
        NORM,
        (("n", 768), (768,), (768,)),
        '\n        y = R.call_tir(cls.norm, (x0, x1, x2), out_sinfo=R.Tensor((n, 768), "float32"))',
        "\n        y = R.nn.layer_norm(x0, x1, x2, axes=[-1])",
    ),
    "convolution": (
        CONV,
        ((1, 64, 56, 56), (64, 64, 3, 3)),
        '\n        y = R.call_tir(cls.conv, (x0, x1), out_sinfo=R.Tensor((1, 64, 56, 56), "float32"))',
        "\n        y = R.nn.conv2d(x0, x1, padding=(1, 1))",
    ),
}


def engine(name: str, programs: str, shapes: tuple[tuple[str | int, ...], ...], body: str, feeds: Any) -> Engine:
    """The model with this body."""
    params = ", ".join(f'x{k}: R.Tensor(({", ".join(map(_dim, s))},), "float32")' for k, s in enumerate(shapes))
    dims = "\n        n = T.int64()" if "n" in shapes[0] else ""
    head = f"    @R.function\n    def main({params}):\n        cls = Module{dims}"
    text = f"@I.ir_module\nclass Module:{programs}{head}{body}\n        return y\n"
    return legato_engine(legato.compile(parse(text), threads=2), feeds, __version__, name)


def _dim(d: str | int) -> str:
    return f'"{d}"' if isinstance(d, str) else str(d)


def main(given: list[str] | None = None) -> int:
    """Prints a row for each case."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.written", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="blocks of each (default: 40)")
    args = parser.parse_args(given)
    print(f"{machine()}, two threads, milliseconds of one call\n\n{'':24}{'loops':>9}{'operators':>11}{'ratio':>7}")
    differs = False
    for name, (programs, shapes, loops, operators) in CASES.items():
        rng = np.random.default_rng(0)
        sizes = [[100 if d == "n" else int(d) for d in s] for s in shapes]
        feeds = {f"x{k}": rng.standard_normal(s, np.float32) for k, s in enumerate(sizes)}
        pair = [engine("operators", "\n", shapes, operators, feeds), engine("loops", programs, shapes, loops, feeds)]
        a, b = (np.asarray(e.call()[0]) for e in pair)
        differs |= not np.allclose(a, b, 1e-4, 1e-4)
        found = compare(pair, args.rounds)
        print(f"{name:24}{found.second:9.3f}{found.first:11.3f}{found.ratio.median:7.2f}", flush=True)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
