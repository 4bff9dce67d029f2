"""`while` in tensor programs: compiled = interpreted = Python, under loops of every kind; Ctrl-C ends it."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from legato.interp import evaluate
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ir.module import Module
from legato.script import parse, show
from legato.tir.equal import alpha_equal
from legato.tir.stmt import Func, LoopKind
from legato.tir.threads import settled
from legato.tir.walk import loops
from tests.interrupts import when_inside

COLLATZ = """
@I.ir_module
class Module:
    @T.prim_func
    def steps(X: T.Buffer(("n",), "int32"), Y: T.Buffer(("n",), "int32")):
        n = T.int64()
        for i in KIND:
            at: T.int32 = X[i]
            count: T.int32 = 0
            while at > 1 and count < 1000000:
                if at % 2 == 0:
                    at = at // 2
                else:
                    at = at * 3 + 1
                count = count + 1
            Y[i] = count

    @R.function
    def main(x: R.Tensor(("n",), "int32")) -> R.Tensor(("n",), "int32"):
        n = T.int64()
        return R.call_tir(Module.steps, (x,), out_sinfo=R.Tensor((n,), "int32"))
"""


def steps(x: int) -> int:
    count = 0
    while x > 1:
        x, count = (x // 2 if x % 2 == 0 else x * 3 + 1), count + 1
    return count


def kernel(module: Module) -> Func:
    (found,) = (f for f in module.functions.values() if isinstance(f, Func))
    return found


@pytest.mark.parametrize("kind", ["range(n)", "T.parallel(n)", "T.unroll(n)"])
def test_turns_until_a_condition_fails(kind: str) -> None:
    module = parse(COLLATZ.replace("KIND", kind))
    for again in (parse(show(module)), legato.parse(str(module)), load_json(save_json(module), ops={})):
        assert alpha_equal(kernel(again), kernel(module))
    x = np.arange(40, dtype=np.int32)
    for run in (legato.compile(module, threads=2), lambda x: evaluate(module, [x])):
        np.testing.assert_array_equal(np.asarray(run(x)), [steps(int(v)) for v in x])


def test_lanes_and_threads_have_no_turns_of_their_own() -> None:
    """A vector loop around a while, and a parallel one in it, run in order; a parallel one around it does not."""
    text = COLLATZ.replace("KIND", "T.vectorized(8)").replace('("n",)', "(8,)").replace("n = T.int64()\n", "pass\n")
    outer = parse(text.replace("(n,)", "(8,)"))
    inner = parse("""
@T.prim_func
def k(X: T.Buffer((8,), "int32")):
    t: T.int32 = 0
    while t < 3:
        for i in T.parallel(8):
            X[i] = X[i] + t
        t = t + 1
""")
    around = parse(COLLATZ.replace("KIND", "T.parallel(n)"))
    kinds = [[s.kind for s in loops(settled(kernel(m)))] for m in (outer, inner, around)]
    assert kinds == [[LoopKind.SERIAL], [LoopKind.SERIAL], [LoopKind.PARALLEL]]
    x = np.arange(8, dtype=np.int32)
    np.testing.assert_array_equal(np.asarray(legato.compile(outer)(x)), [steps(int(v)) for v in x])


def test_accesses_of_a_condition_are_tested_in_each_turn() -> None:
    module = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def first(X: T.Buffer(("n",), "int32"), Y: T.Buffer((), "int64")):
        n = T.int64()
        Y[()] = T.int64(0)
        while X[Y[()]] != 0:
            Y[()] = Y[()] + T.int64(1)

    @R.function
    def main(x: R.Tensor(("n",), "int32")):
        return R.call_tir(Module.first, (x,), out_sinfo=R.Tensor((), "int64"))
""")
    for run in (legato.compile(module), lambda x: evaluate(module, [x])):
        assert np.asarray(run(np.array([3, 4, 0, 5, 0], np.int32))) == 2
        with pytest.raises(RunError, match=r"reads X\[2\], whose extents are \[2\]"):
            run(np.array([1, 1], np.int32))


def test_work_in_place_sees_what_each_turn_reads() -> None:
    """Turns read their input again: the output does not get its memory."""
    module = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def k(X: T.Buffer((64,), "float32"), Y: T.Buffer((64,), "float32")):
        for i in range(64):
            t: T.int32 = 0
            while t < 3:
                Y[i] = X[i] + 1.0
                t = t + 1

    @R.function
    def main(x: R.Tensor((64,), "float32")):
        with R.dataflow():
            y = R.exp(x)
            z = R.call_tir(Module.k, (y,), out_sinfo=R.Tensor((64,), "float32"))
            R.output(z)
        return z
""")
    np.testing.assert_array_equal(np.asarray(legato.compile(module)(np.zeros(64, np.float32))), np.full(64, 2))


@pytest.mark.parametrize("kind", ["range(n)", "T.parallel(n)"])
def test_ctrl_c_ends_a_while(kind: str) -> None:
    exe = legato.compile(parse(COLLATZ.replace("KIND", kind).replace(" and count < 1000000", " or at < 9")), threads=2)
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        when_inside(lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            exe(np.arange(4, dtype=np.int32))
    finally:
        signal.signal(signal.SIGINT, old)
