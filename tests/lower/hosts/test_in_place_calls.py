"""Calls of tensor programs that work in place: nothing is copied that nobody reads later, and no value changes."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.interp import evaluate
from legato.ir.module import Module
from legato.lower.hosts.program import HostProgram
from legato.script import parse
from legato.tir.stmt import Launch
from legato.tir.walk import statements
from tests.graphs import leaves
from tests.lower.programs import lowered

TEXT = """
@I.ir_module
class Module:
    @T.prim_func
    def k(X: T.Buffer(("n",), "float32"), W: T.Buffer(("n",), "float32")):
        n = T.int64()
        for i in range(n - 1):
            X[i] = X[i] * 2.0 + W[n - 1 - i]

    @T.prim_func
    def two(X: T.Buffer(("n",), "float32"), Z: T.Buffer(("n",), "float32"), S: T.Buffer(("n",), "float32")):
        n = T.int64()
        for i in range(n - 1):
            S[i] = X[i] - Z[i]
            X[i] = X[i] + 1.0
            Z[i] = Z[i] * 3.0

    @R.function
    def main(x: R.Tensor((SIZE,), "float32"), w: R.Tensor((SIZE,), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        n = SIZE_VALUE
        t = R.Tensor((n,), "float32")
BODY
"""


def module(body: str, size: str = '"n"') -> Module:
    """A module whose @main does what `body` says; `k(a, b)` and `two(a, b)` there are calls in place."""
    for name, places, out in (("k", "[0]", "t"), ("two", "[0, 1, -1]", "[t, t, t]")):
        start = f" {name}("
        while start in body:
            at = body.index(start)
            end = body.index(")", at)
            args = body[at + len(start) : end]
            call = f" R.call_tir_inplace(cls.{name}, ({args}), {places}, out_sinfo={out})"
            body = body[:at] + call + body[end + 1 :]
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    value = "T.int64()" if size == '"n"' else size
    return parse(TEXT.replace("SIZE_VALUE", value).replace("SIZE", size).replace("BODY\n", lines))


def copies(program: HostProgram) -> int:
    """The launches of kernels that copy."""
    names = program.copies.values()
    stmts = [s for f in program.functions.values() for s in statements(f.body)]
    return sum(isinstance(s, Launch) and s.kernel in names for s in stmts)


CASES = {
    "a temporary": ("y = R.tanh(x)\nz = k(y, w)\nreturn z", 0),
    "a temporary, of which more is made": ("y = R.tanh(x)\nz = k(y, w)\nreturn R.tanh(z)", 0),
    "one call behind the other": ("y = R.tanh(x)\nz = k(y, w)\ne = k(z, w)\nreturn e", 0),
    "an input": ("z = k(x, w)\nreturn z", 1),
    "an input, then what was made of it": ("z = k(x, w)\ne = k(z, w)\nreturn e", 1),
    "an input that is returned": ("z = k(x, w)\nreturn (z, x)", 2),
    "a constant": ("y = R.op.zeros(shape=(4,))\nz = k(y, w)\nreturn z", 1),
    "what is used later": ("y = R.tanh(x)\nz = k(y, w)\ne = R.add(z, y)\nreturn e", 1),
    "what is read before": ("y = R.tanh(x)\ns = R.sum(y)\nz = k(y, w)\nreturn (z, s)", 0),
    "what can be read before": ("y = R.tanh(x)\nz = k(y, w)\ns = R.sum(R.multiply(y, w))\nreturn (z, s)", 0),
    "what is read before and later": (
        "y = R.tanh(x)\ns = R.sum(y)\nz = k(y, w)\nt = R.sum(R.add(z, y))\nreturn (z, s, t)",
        1,
    ),
    "what is returned, too": ("y = R.tanh(x)\nz = k(y, w)\nreturn (z, y)", 1),
    "another name": ("y = R.tanh(x)\na = (y, w)\nz = k(y, w)\nreturn (z, a[0])", 1),
    "twice among the arguments": ("y = R.tanh(x)\nz = k(y, y)\nreturn z", 1),
    "two results of three": ("y = R.tanh(x)\nv = R.tanh(w)\nz = two(y, v)\nreturn (z[0], z[2], z[1])", 0),
    "two results of one temporary": ("y = R.tanh(x)\nz = two(y, y)\nreturn (z[0], z[2], z[1])", 1),
    "called twice": ("y = R.tanh(x)\nz = k(y, w)\ne = k(y, x)\nreturn R.add(z, e)", 1),
    "a branch": ("y = R.tanh(x)\nif c:\n    z = k(y, w)\nelse:\n    z = R.tanh(w)\nreturn z", 0),
    "branches": ("y = R.tanh(x)\nif c:\n    z = k(y, w)\nelse:\n    z = k(y, x)\nreturn z", 0),
    "a branch that reads it": ("y = R.tanh(x)\nif c:\n    z = k(y, w)\nelse:\n    z = k(w, y)\nreturn z", 2),
}


@pytest.mark.parametrize("size", ['"n"', "4"])
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_copied_that_is_not_needed(case: str, size: str) -> None:
    body, count = CASES[case]
    if "zeros" in body and size != "4":
        body = body.replace("(4,)", "(n,)")
        count = 0  # which is computed
    assert copies(lowered(module(body, size))) == count


@pytest.mark.parametrize("case", CASES)
def test_values_do_not_change(case: str) -> None:
    body, _ = CASES[case]
    mod = module(body, "4")
    exe = legato.compile(mod)
    rng = np.random.default_rng(1)
    for c in (True, False):
        args = [rng.standard_normal(4, np.float32), rng.standard_normal(4, np.float32), np.array(c)]
        kept = [a.copy() for a in args]
        wanted = evaluate(mod, [*args])
        for _ in range(2):
            for a, b in zip(leaves(exe(*args)), leaves(wanted), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        assert all(np.array_equal(a, b) for a, b in zip(args, kept, strict=True))


LOOP = """
@I.ir_module
class Module:
    @T.prim_func
    def put(C: T.Buffer(("n",), "float32"), K: T.Buffer((), "int32")):
        n = T.int64()
        for j in range(1):
            if K[()] >= 0 and K[()] < n:
                C[K[()]] = C[K[()]] + 5.0

    @R.function
    def loop(i: R.Tensor((), "int32"), cache: R.Tensor(("n",), "float32"), s: R.Tensor((), "float32")) -> OUT:
        cls = Module
        n = T.int64()
        if R.less(i, R.const(3, "int32")):
            a = R.call_tir_inplace(cls.put, (cache, i), [0], R.Tensor((n,), "float32"))
            z = cls.loop(R.add(i, R.const(1, "int32")), a, R.add(s, R.sum(READ)))
        else:
            z = RESULT
        return z

    @R.function
    def main(cache: R.Tensor(("n",), "float32")):
        cls = Module
        z = cls.loop(R.const(0, "int32"), cache, R.const(0.0, "float32"))
        return z
"""
PAIR = 'R.Tuple(R.Tensor(("n",), "float32"), R.Tensor((), "float32"))'


@pytest.mark.parametrize(
    ("out", "result", "read", "count"),
    [
        (PAIR, "(cache, s)", "a", 1),  # in front of the loop, unless it is donated
        (PAIR, "(R.negative(cache), s)", "a", 1),
        (PAIR, "(cache, s)", "cache", 1),  # the old value, which is read first
        (PAIR, "(cache, s)", "R.add(a, cache)", 3),  # both ways in each turn
        ('R.Tensor((), "float32")', "s", "a", 1),
    ],
)
def test_a_loop_works_in_what_it_carries(out: str, result: str, read: str, count: int) -> None:
    mod = parse(LOOP.replace("OUT", out).replace("RESULT", result).replace("READ", read))
    assert copies(lowered(mod)) == count
    exe, x = legato.compile(mod), np.ones(6, np.float32)
    wanted = [np.asarray(v) for v in leaves(evaluate(mod, [x]))]
    for donated in ((), ("cache",)):
        given = x.copy()
        found = list(exe.run({"cache": given}, donate=donated).values())
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b)
        assert np.array_equal(given, x) or donated
        assert ("cache" in exe.in_place) == (result == "(cache, s)")
        assert (found[0] is given) == ("cache" in donated and "cache" in exe.in_place)
