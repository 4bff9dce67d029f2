"""C source as a generator: it passes the conformance test, and means what loop programs mean."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import legato
from legato.arith.expr import Op as Arith
from legato.arith.expr import Var, binary, const, eq, lt, select
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import GeneratorError, UnsupportedError
from legato.generators import CSource, partition
from legato.generators.c_source import library_of, run_library
from legato.generators.c_text import TYPES, c_text
from legato.ops import table
from legato.testing import check_generator
from legato.tir import interp as tir_interp
from legato.tir.buffer import Buffer
from legato.tir.expr import Load, call, cast
from legato.tir.stmt import Check, For, Func, If, Stmt, Store, While, block
from tests.heavy import amount, picked

INTEGERS = [d for d in TYPES if d.is_int]
NUMBERS = [dt.float32, dt.float64, *INTEGERS]
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.0, 1e30, -1e30, np.inf, -np.inf, np.nan)


@pytest.mark.sized
def test_it_keeps_its_promises() -> None:
    """Over all operators, or a part of them: each is compiled by a C compiler."""
    always = {"nn.conv2d", "nn.dense", "nn.max_pool2d", "nn.softmax", "nn.batch_norm", "concatenate", "add", "tanh"}
    some = always | {name for name in table() if picked(name, 6)}
    report = check_generator(CSource(operators=amount(frozenset(some), None)))
    assert len(report.operators) >= amount(30, 170)
    assert always <= {*report.operators}


def values(dtype: DType) -> np.ndarray:
    """Every interesting value of a dtype."""
    if dtype.is_float:
        return np.array(SPECIAL, dtype.numpy)
    ends = {dtype.min, dtype.min + 1, dtype.max, dtype.max - 1, 0, 1, 2, 3, 7}
    return np.array(sorted(ends | ({-1, -2, -3, -7} if dtype.is_signed else set())), dtype.numpy)


def elementwise(bodies: list[tuple[Buffer, object]], inputs: list[Buffer], extent: int) -> Func:
    """A program that stores each body for every element of the inputs."""
    i = Var("i", lo=0)
    stores = [Store(out, (i,), body(i)) for out, body in bodies]  # type: ignore[operator]
    return Func("run", (*inputs, *(out for out, _ in bodies)), For(i, const(extent), block(*stores)))


def agree(func: Func, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """Requires the compiled program to store what the interpreter stores."""
    theirs = [o.copy() for o in outputs]
    status = tir_interp.run(func, [*inputs, *theirs])
    ours = [o.copy() for o in outputs]
    assert run_library(library_of(c_text(func)), "run", [*inputs, *ours], []) == status
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)]))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_arithmetic(dtype: DType) -> None:
    a, b = (v.ravel() for v in np.meshgrid(values(dtype), values(dtype)))
    x, y = (Buffer(name, (const(a.size),), dtype) for name in "xy")
    ops = [op for op in Arith if op not in (Arith.AND, Arith.OR) and (op is not Arith.DIV or dtype.is_float)]
    if dtype.is_float:
        ops = [op for op in ops if op not in (Arith.SHL, Arith.SHR, Arith.BITAND, Arith.BITOR, Arith.BITXOR)]
    outs = [Buffer("out", x.shape, binary(op, Load(x, (const(0),)), Load(y, (const(0),))).dtype) for op in ops]
    bodies = [
        (out, lambda i, op=op: binary(op, Load(x, (i,)), Load(y, (i,)))) for out, op in zip(outs, ops, strict=True)
    ]
    agree(elementwise(bodies, [x, y], a.size), [a, b], [np.zeros(a.size, o.dtype.numpy) for o in outs])


@pytest.mark.parametrize("dtype", [dt.bool_, *NUMBERS], ids=str)
def test_casts(dtype: DType) -> None:
    data = np.array([False, True]) if dtype.is_bool else values(dtype)
    x = Buffer("x", (const(data.size),), dtype)
    outs = [Buffer("out", x.shape, d) for d in TYPES if d != dt.index]
    bodies = [(out, lambda i, out=out: cast(Load(x, (i,)), out.dtype)) for out in outs]
    agree(elementwise(bodies, [x], data.size), [data], [np.zeros(data.size, o.dtype.numpy) for o in outs])


@pytest.mark.parametrize("dtype", [dt.float32, dt.float64, dt.int32, dt.uint8], ids=str)
def test_functions_that_are_exact(dtype: DType) -> None:
    data = values(dtype)
    x = Buffer("x", (const(data.size),), dtype)
    names = ["neg", "abs"] + (
        ["floor", "ceil", "trunc", "round", "sqrt", "isnan", "isinf"] if dtype.is_float else ["bitnot"]
    )
    outs = [Buffer("out", x.shape, call(name, Load(x, (const(0),))).dtype) for name in names]
    bodies = [(out, lambda i, name=name: call(name, Load(x, (i,)))) for out, name in zip(outs, names, strict=True)]
    agree(elementwise(bodies, [x], data.size), [data], [np.zeros(data.size, o.dtype.numpy) for o in outs])


def test_branches_loops_and_checks() -> None:
    x, out = Buffer("x", (const(4),), dt.float32), Buffer("out", (const(4),), dt.float32)
    n = Buffer("n", (), dt.index)
    i, k = Var("i", lo=0), Load(n, ())
    guarded = select(lt(i, const(3)), Load(x, (i + 1,)), const(0.5, dt.float32))  # behind the last one nothing is read
    count = block(Store(n, (), const(0)), While(lt(k, const(3)), Store(n, (), k + 1)))
    chosen = If(lt(i, const(2)), Store(out, (i,), guarded), Store(out, (i,), guarded + guarded))
    body: Stmt = block(count, For(i, const(4), chosen), Check(eq(k, const(3)), 7), Check(lt(k, const(3)), 9))
    data = np.array([1, 2, 3, 4], np.float32)
    agree(Func("run", (x, out, n), body), [data], [np.zeros(4, np.float32), np.zeros((), np.int64)])


def test_dims_and_memory(tmp_path: Path) -> None:
    text = """def @main(%x: Tensor[(n, m), float32], %y: Tensor[(m), float32]) {
      %0 = concatenate((%x, %x + %y), axis=1); (sum(%0, axis=[1]), reshape(%0, newshape=[2 * n, m]))
    }"""
    module, engine = legato.parse(text), CSource()
    cut = partition(module, [engine])
    exe = legato.compile(cut, generators=[engine])
    exe.save(tmp_path / "p")
    for n, m in ((2, 3), (1, 5), (0, 2)):
        x, y = np.ones((n, m), np.float32), np.arange(m, dtype=np.float32)
        for found in (exe, legato.load(tmp_path / "p", generators=[engine])):
            for got, wanted in zip(found(x, y), legato.compile(module)(x, y), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert "int run(void *const *buffers, const int64_t *dims)" in engine.source(cut["c_main_0"])  # type: ignore[arg-type]


LOCAL = 'def @main(%x: Tensor[(2), {0}]) {{ fn (%y: Tensor[(2), {0}], Compiler="c") {{ exp(%y) }}(%x) }}'


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (
            CSource(compiler="no-such-compiler"),
            "PlatformError: there is no C compiler 'no-such-compiler'",
        ),
        (CSource(flags=("-no-such-flag",)), "PlatformError: cc gave 1"),
    ],
)
def test_what_has_no_compiler(engine: CSource, message: str) -> None:
    with pytest.raises(GeneratorError, match=f"^generator 'c', function @c_main: compile failed: {message}"):
        legato.compile(legato.parse(LOCAL.format("float32")), generators=[engine])


def test_what_has_no_c() -> None:
    with pytest.raises(GeneratorError, match="UnsupportedError: unsupported: C source has no type for float16"):
        legato.compile(legato.parse(LOCAL.format("float16")), generators=[CSource()])
    handle = Buffer("x", (const(1),), dt.bfloat16)
    with pytest.raises(UnsupportedError, match="no type for bfloat16"):
        c_text(Func("run", (handle,), block()))


def test_only_some_operators() -> None:
    module = legato.parse("def @main(%x: Tensor[(2), float32]) { exp(tanh(%x)) }")
    cut = partition(module, [CSource(operators=frozenset({"exp"}))])
    assert "tanh" in str(cut["main"])
    assert "exp" not in str(cut["main"])
