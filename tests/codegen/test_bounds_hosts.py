"""Tested host functions: what a kernel leaves with nothing in it, and what operators are given, by both ways to run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.arith.expr import Var, const
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.runtime.violation import AccessInfo, violation
from legato.tir import interp
from legato.tir.bounds import WORDS, AccessTests, checked
from legato.tir.buffer import Buffer
from legato.tir.parser import parse_func
from legato.tir.stmt import Alloc, Func, FuncKind, HostOp, Launch, View, block
from tests.codegen.test_host import run_both


def run_tested(*funcs: Func, args: list[Any]) -> str:
    """The message of the test that fails when the last of `funcs` runs, compiled and interpreted; nothing if none."""
    tests = AccessTests(0)
    functions = {f.name: f for f in funcs}
    kernels = {f.name: f for f in funcs if f.kind is FuncKind.KERNEL}
    new = [checked(f, tests, functions, complete=kernels) for f in funcs]
    report = np.full(WORDS, -1)
    return told(tests, run_both(new, [*args, report]), report)


def told(tests: AccessTests, status: int, report: np.ndarray) -> str:
    """The message of the test that has failed with `status`; nothing if none has."""
    infos = [AccessInfo(t.message, t.is_ours) for t in tests.found]
    return str(violation(infos, status - 256, report.tolist())).splitlines()[0] if status else ""


DTYPES = [dt.float32, dt.float16, dt.bfloat16, dt.float64, dt.int32, dt.uint32, dt.int64]


@pytest.mark.parametrize("layout", ["", ", order=(1, 0)", ", halo=((1, 1), (0, 2))", ", pad=(0, 3)"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_kernel_stores_all_of_its_outputs(dtype: DType, layout: str) -> None:
    """This one stores to three columns, of 3 and of 4."""
    for n in (3, 4):
        kernel = parse_func(f"""kernel @k(x: Buffer[(2, {n}), {dtype}], y: Buffer[(2, {n}), {dtype}{layout}]) {{
          for i in 0..2 {{ for j in 0..3 {{ y[i, j] = x[i, j]; }} }}
        }}""")
        x, y = kernel.params
        assert isinstance(y, Buffer)
        main = Func("main", (x,), Alloc(y, Launch((x, y), "k")), FuncKind.HOST)
        wanted = "" if n == 3 else "host main is left by k with nothing in y[0, 3]"
        assert run_tested(kernel, main, args=[np.arange(2 * n).reshape(2, n).astype(dtype.numpy)]) == wanted


def in_arena(kernel: Func, place: int) -> Func:
    """Puts x into an arena, lets `kernel` make a y at byte `place` of it from that, and returns y."""
    x, y, out = (Buffer(name, (const(4),), dt.float32) for name in ("x", "y", "out"))
    given, arena = Buffer("given", (const(4),), dt.float32), Buffer("arena", (const(64),), dt.uint8)
    body = block(Launch((given, x), "copy"), Launch((x, y), kernel.name), Launch((y, out), "copy"))
    views = View(x, arena, const(0), View(y, arena, const(place), body))
    return Func("main", (given, out), Alloc(arena, views), FuncKind.HOST)


COPY = "kernel @copy(x: Buffer[(4,), float32], y: Buffer[(4,), float32]) { for i in 0..4 { y[i] = x[i]; } }"


@pytest.mark.parametrize("place", [0, 32])
def test_what_works_in_place_keeps_its_argument(place: int) -> None:
    double = parse_func(COPY.replace("@copy", "@double").replace("= x[i]", "= x[i] + x[i]"))
    x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    assert run_tested(parse_func(COPY), double, in_arena(double, place), args=[x, y]) == ""
    np.testing.assert_array_equal(y, 2 * x)


def test_what_no_kernel_stored_is_found_before_it_is_read() -> None:
    some = parse_func(COPY.replace("@copy", "@some").replace("0..4", "0..3"))
    args = [np.arange(4, dtype=np.float32), np.zeros(4, np.float32)]
    message = run_tested(parse_func(COPY), some, in_arena(some, 32), args=args)
    assert message == "host main is left by some with nothing in y[3]"


@pytest.mark.parametrize(
    ("extent", "wanted"), [(3, ""), (4, "host main gives operator 0 4 as extent 1 of x, which is 3")]
)
def test_an_operator_is_given_the_extents_of_its_arguments(extent: int, wanted: str) -> None:
    n = Var("n", dt.index)
    x, y = Buffer("x", (const(2), const(3)), dt.float32), Buffer("y", (const(1),), dt.float32)
    main = Func("main", (x, y, n), HostOp((x, y, const(2), n, const(1)), 0), FuncKind.HOST)
    tests = AccessTests(0)
    new = checked(main, tests, {})
    report = np.full(WORDS, -1)
    args = [np.zeros((2, 3), np.float32), np.zeros(1, np.float32), extent, report]
    status = interp.run(new, args, host_op=lambda number, args: None)
    assert told(tests, status, report) == wanted
