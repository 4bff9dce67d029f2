"""precision="bfloat16": compiled programs against the interpreter on the same passed module, on every instruction set.

The bound is on the largest error relative to the largest result. Against the interpreter, which is given the same
rounded factors, only the order of sums and the rounding of what is stored in between differ: one unit of bfloat16 for
each tensor stored. Against float32 the rounding of all factors comes on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import legato
from legato.arith.expr import fresh
from legato.base.precision import Precision
from legato.base.target import TARGETS, Target, host
from legato.base.target import target as as_target
from legato.codegen.compile import assembly
from legato.codegen.emit import emit_module
from legato.codegen.spills import innermost_loops
from legato.driver import CompileOptions, compile_module, lower_module
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.ir.verify import verify
from legato.pipelines import for_precision
from legato.transform.infer_types import InferTypes
from legato.transform.low_precision import LowPrecision
from legato.transform.pass_ import Observer, run
from tests.graphs import Program, leaves, programs
from tests.machines import LEVELS, each
from tests.programs.settings import examples

MACHINES = [host(), *LEVELS]
EACH = each(*dict.fromkeys((host(), *TARGETS.values())))
ULP = 2.0**-8  # of bfloat16: the largest relative error of two roundings to nearest
Array = np.ndarray


def normal(rng: np.random.Generator, *shape: int) -> Array:
    """Normal numbers as float32."""
    return rng.standard_normal(shape).astype(np.float32)


def check(func: Function, args: Sequence[Array], target: Target, stored: int = 1, sums: float = 1e-5) -> None:
    """Compiled = interpreted, both with factors of bfloat16; `stored` tensors in between are rounded, and sums are
    formed with a relative error of `sums`."""
    mod = InferTypes()(Module.from_expr(func))
    exe = compile_module(mod, CompileOptions(target, precision=Precision.BFLOAT16)).executable
    assert exe.stats["host_operators"] == 0
    got, wanted = exe(*args), evaluate(LowPrecision()(mod), args)
    assert got.dtype == np.float32
    size = float(np.abs(wanted).max(initial=1e-30))
    assert float(np.abs(got - wanted).max(initial=0.0)) <= (sums + 2 * ULP * (stored - 1)) * size
    for threads in (2, 3):
        assert exe.with_threads(threads)(*args).tobytes() == got.tobytes()


@examples(8, fuzz=False, heavy=40)
@given(st.integers(1, 17), st.integers(1, 40), st.integers(1, 70), st.sampled_from((1, 2, 3)), st.integers(1, 2),
       st.booleans(), st.sampled_from(MACHINES))  # fmt: skip
def test_convolutions(
    size: int, channels: int, outs: int, kernel: int, stride: int, constant: bool, target: Target
) -> None:
    rng = np.random.default_rng(size * channels)
    b = Builder()
    x, weight = b.var("x", (1, channels, size, size + 2)), normal(rng, outs, channels, kernel, kernel)
    w = weight if constant else b.var("w", weight.shape)
    y = b.nn.conv2d(x, w, padding=(kernel // 2,) * 2, strides=(stride, stride))
    data = normal(rng, 1, channels, size, size + 2)
    check(b.function([x] if constant else [x, w], b.nn.relu(y)), [data] if constant else [data, weight], target)


@examples(8, fuzz=False, heavy=40)
@given(st.integers(1, 30), st.integers(1, 40), st.integers(1, 70), st.booleans(), st.booleans(), st.booleans(),
       st.sampled_from(MACHINES))  # fmt: skip
def test_products(m: int, k: int, n: int, first: bool, second: bool, constant: bool, target: Target) -> None:
    """Operands of any order in memory, odd sums, constant weights and others."""
    rng = np.random.default_rng(m * n)
    b = Builder()
    x, y = normal(rng, 2, *((k, m) if first else (m, k))), normal(rng, 2, *((n, k) if second else (k, n)))
    p, q = b.var("x", x.shape), y if constant else b.var("y", y.shape)
    product = b.nn.batch_matmul(p, q, transpose_a=first, transpose_b=second)
    func = b.function([p] if constant else [p, q], b.tanh(product))  # type: ignore[list-item]
    check(func, [x] if constant else [x, y], target)


@examples(25)
@given(programs(steps=16, limit=512), st.sampled_from(MACHINES))
def test_random_programs(program: Program, target: Target) -> None:
    """Within a few roundings to bfloat16 of the largest value in the program."""
    narrow = LowPrecision()(program.module)
    assume(narrow is not program.module)
    verify(narrow)
    exe = compile_module(program.module, CompileOptions(target, precision=Precision.BFLOAT16)).executable
    args = program.arguments()
    largest = 1.0

    def observe(_: Expr, value: Any) -> None:
        nonlocal largest
        if isinstance(value, np.ndarray) and value.dtype == np.float32:
            largest = max(largest, float(np.abs(value[np.isfinite(value)]).max(initial=0.0)))

    wanted = evaluate(narrow, args, observe=observe)
    for g, w in zip(leaves(exe(*args)), leaves(wanted), strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        if g.dtype.kind == "f":
            finite = np.isfinite(w)
            assert float(np.abs(g[finite] - w[finite]).max(initial=0.0)) <= 16 * ULP * largest


SYMBOLIC = """#[version = "0.0.5"]
def @main[n: ShapeVar(1, 64)](%q: Tensor[(2, 5, 8), float32], %k: Tensor[(2, n, 8), float32],
                              %v: Tensor[(2, n, 8), float32]) {
  %0 = nn.batch_matmul(%q, %k, transpose_b=True);
  %1 = nn.softmax(%0);
  nn.batch_matmul(%1, %v)
}
"""


@pytest.mark.parametrize("target", EACH)
def test_symbolic_extents(target: Target) -> None:
    """Attention over a symbolic number of keys: the last one may have no partner."""
    mod = legato.parse(SYMBOLIC)
    exe = legato.compile(mod, target=target.name, precision="bfloat16")
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 32):
        args = [normal(rng, 2, 5, 8), normal(rng, 2, n, 8), normal(rng, 2, n, 8)]
        wanted = evaluate(LowPrecision()(mod), args)
        assert np.abs(exe(*args) - wanted).max() <= 2 * ULP * np.abs(wanted).max()


@pytest.mark.parametrize("target", EACH)
@pytest.mark.parametrize(("keys", "size"), [(32, 16), (7, 16), (32, 5), (19, 7)])
@pytest.mark.shared(4)
def test_attention(keys: int, size: int, target: Target) -> None:
    """One kernel; sums over an even number of terms are dot products where the target has these."""
    rng = np.random.default_rng(keys)
    b = Builder()
    q, k, v = b.var("q", (2, 5, size)), b.var("k", (2, keys, size)), b.var("v", (2, keys, size))
    weights = b.nn.softmax(b.multiply(b.nn.batch_matmul(q, k), 0.25))
    func = b.function([q, k, v], b.nn.batch_matmul(weights, v, transpose_b=False))
    args = [normal(rng, 2, 5, size), normal(rng, 2, keys, size), normal(rng, 2, keys, size)]
    check(func, args, target, stored=3)
    text = legato.compile(func, target=target.name, precision="bfloat16", keep=["lower"]).module_after("lower")
    assert text.count("kernel @") <= 6  # three conversions, two operands rearranged
    if target.has_bf16:
        assert ("dot2(" in text) is (keys % 2 == 0 or size % 2 == 0)


def network(rng: np.random.Generator) -> tuple[Function, list[Array]]:
    """Convolutions, a residual sum, pooling, a dense layer."""

    def weight(*shape: int) -> Array:
        return normal(rng, *shape) / np.sqrt(np.float32(np.prod(shape[1:])))

    b = Builder()
    x = b.var("x", (1, 3, 20, 20))
    first: Expr = b.nn.relu(b.nn.conv2d(x, weight(24, 3, 3, 3), padding=(1, 1)))
    second = b.nn.max_pool2d(first, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    third = b.nn.relu(b.nn.conv2d(second, weight(24, 24, 3, 3), padding=(1, 1)))
    fourth = b.add(b.nn.conv2d(third, weight(24, 24, 1, 1)), second)
    flat = b.nn.batch_flatten(b.nn.global_avg_pool2d(fourth))
    return b.function([x], b.nn.softmax(b.nn.dense(flat, weight(10, 24)))), [normal(rng, 1, 3, 20, 20)]


@pytest.mark.parametrize("target", EACH)
def test_a_network(target: Target) -> None:
    func, args = network(np.random.default_rng(3))
    check(func, args, target, stored=5)
    exact = evaluate(InferTypes()(Module.from_expr(func)), args)
    got = legato.compile(func, target=target.name, precision="bfloat16")(*args)
    assert np.abs(got - exact).max() <= 2e-2 * np.abs(exact).max()


@pytest.mark.parametrize("target", EACH)
@pytest.mark.parametrize("size", [28, 30, 57])
@pytest.mark.shared(4)
def test_windows_by_winograd(size: int, target: Target) -> None:
    """Narrow data, transformed and multiplied in float32, where that is faster than dot products."""
    rng = np.random.default_rng(size)
    b = Builder()
    x, data = b.var("x", (1, 16, size, size)), normal(rng, 1, 16, size, size)
    narrow = b.nn.conv2d(x, normal(rng, 64, 16, 1, 1))
    weight = normal(rng, 64, 64, 3, 3) / np.float32(24)
    func = b.function([x], b.nn.relu(b.nn.conv2d(narrow, weight, padding=(1, 1))))
    check(func, [data], target, stored=2, sums=1e-4)
    options = {"target": target.name, "precision": "bfloat16", "keep": ["lower"]}
    text = legato.compile(func, **options).module_after("lower")  # type: ignore[arg-type]
    assert "data" in text
    assert "2.25f" in text  # of F(4, 3)'s matrices


def test_register_tiles_are_not_spilled() -> None:
    machine = as_target("x86-64-v4+avx512bf16")
    b = Builder()
    x = b.var("x", (128, 256))
    func = b.function([x], b.nn.relu(b.nn.dense(x, np.ones((256, 256), np.float32))))
    options = CompileOptions(machine, precision=Precision.BFLOAT16)
    program = lower_module(run(InferTypes()(Module.from_expr(func)), options.pipeline), options, Observer())[1]
    texts = (assembly(emit_module([k], machine, {}), machine) for k in program.kernels.values())
    tiles = [loop for text in texts for loop in innermost_loops(text) if loop.count("vdpbf16ps") >= 88]
    assert tiles
    assert all(loop.stack_references == 0 for loop in tiles)


@pytest.mark.skipif(TARGETS["x86-64-v3"] not in LEVELS, reason="needs AVX2")
@pytest.mark.parametrize(("rows", "outs", "is_wide"), [(40, 64, True), (6, 64, False), (40, 31, False)])
@pytest.mark.parametrize("is_symbolic", [False, True])
def test_data_for_many_channels_is_converted_once(rows: int, outs: int, is_wide: bool, is_symbolic: bool) -> None:
    """Where pairs are multiplied one half after the other."""
    b, rng = Builder(), np.random.default_rng(0)
    x = b.var("x", (fresh("n") if is_symbolic else rows, 75))
    func = b.function([x], b.nn.relu(b.nn.dense(x, normal(rng, outs, 75))))
    check(func, [normal(rng, rows, 75)], TARGETS["x86-64-v3"])
    text = legato.compile(func, target="x86-64-v3", precision="bfloat16", keep=["tir"]).module_after("tir")
    is_wide |= is_symbolic and outs > 31
    assert ("wide_" in text) is is_wide
    assert ("dot2(" in text) is not is_wide


def test_what_contractions_read_is_stored_in_16_bits() -> None:
    func, _ = network(np.random.default_rng(3))
    text = legato.compile(func, precision="bfloat16", keep=["lower"]).module_after("lower")
    kernels = [line for line in text.splitlines() if "call_tir" in line]
    assert sum("bfloat16" in line for line in kernels) >= 4
    assert "dot2(" in text


def test_the_default_is_float32() -> None:
    func, _ = network(np.random.default_rng(3))
    assert "bfloat16" not in legato.compile(func, keep=["*"]).module_after("lower")


def test_the_pass_is_part_of_the_list_when_asked_for() -> None:
    names = [p.name for p in for_precision(CompileOptions(host()).passes, Precision.BFLOAT16)]
    assert names.index("low-precision") == names.index("to-a-normal") - 1
    assert for_precision((LowPrecision(),), Precision.BFLOAT16) == (LowPrecision(),)
    assert for_precision((LowPrecision(),), Precision.FAST) == (LowPrecision(),)
    mod = InferTypes()(Module.from_expr(network(np.random.default_rng(3))[0]))
    assert run(mod, (LowPrecision(), LowPrecision())) is not mod
