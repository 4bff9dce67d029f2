"""Scans, scheduled and compiled: the interpreter's result, the same bits for any number of threads, in registers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Expr, fresh
from legato.base.target import TARGETS, Target, host, missing_features
from legato.codegen.compile import assembly
from legato.codegen.emit import emit_module
from legato.codegen.spills import InnerLoop, innermost_loops
from legato.driver import CompileOptions, compile_module
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir import expr as ir
from legato.ir.module import Module
from legato.ir.op import Op, Relation
from legato.ir.types import TensorType, TupleType, Type
from legato.te import math as te
from legato.te.scan import scan
from legato.te.tensor import Tensor, compute, reduce
from legato.tir.launch import LaunchKind, launch_kind
from legato.tir.stmt import Func
from tests.lower.programs import lowered
from tests.programs.settings import examples

Array = np.ndarray[Any, Any]
V3, V4 = TARGETS["x86-64-v3"], TARGETS["x86-64-v4"]
GATES = {"nn.lstm_scan": 4, "nn.gru_scan": 3, "nn.rnn_scan": 1}
GRU_AFTER = {"reset_after": True}


def floats(*shape: int) -> Array:
    """Small enough for errors to fade from step to step."""
    scale = np.sqrt(shape[-1]) if len(shape) == 2 else 4
    return (np.random.default_rng(sum(shape)).standard_normal(shape) / scale).astype(np.float32)


def layer(
    name: str, steps: Any, batch: Any, units: int, *, constant: bool = True, **attrs: Any
) -> tuple[Module, Callable[[int, int], list[Array]]]:
    """A program of one scan, and its arguments for numbers of steps and sequences. The weight may be a constant."""
    b, gates = Builder(), GATES[name]
    weight = floats(gates * units, units)
    states = 2 if name == "nn.lstm_scan" else 1
    params = [b.var("x", (steps, batch, gates * units)), *(b.var(f"s{n}", (batch, units)) for n in range(states))]
    if not constant:
        params.append(b.var("w", weight.shape))
    more: list[ir.Expr] = [b.constant(floats(units))] if attrs.get("reset_after") else []
    if attrs.get("lengths"):
        params.append(b.var("lengths", (batch,), "int32"))
        more.append(params[-1])
    given = params[1 + states] if not constant else b.constant(weight)
    call = b.call(name, params[0], given, *params[1 : 1 + states], *more, **attrs)

    def arguments(t: int, n: int) -> list[Array]:
        arrays = [floats(t, n, gates * units), *(floats(n, units) for _ in range(states))]
        arrays += [] if constant else [weight]
        return [*arrays, np.arange(n, dtype=np.int32) % (t + 2)] if attrs.get("lengths") else arrays

    return Module.from_expr(b.function(params, call)), arguments


def kernels(module: Module, target: Target) -> list[Func]:
    """The kernels of scans in the lowered program, checked. Nothing is copied."""
    program = lowered(module, target)
    assert not any(name.startswith("copy") for name in program.kernels)
    return [k for name, k in program.kernels.items() if re.fullmatch(r"[a-z]+_scan_\d+", name)]  # others pack weights


def check(module: Module, args: list[Array], threads: tuple[int, ...] = (1, 2, 3, 4)) -> None:
    """Compiled = interpreted, and the same bits for any number of threads."""
    exe = compile_module(module, CompileOptions(host())).executable
    wanted, first = evaluate(module, args), exe(*args)
    for got, want in zip(first, wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6)
    for n in threads:
        again = exe.with_threads(n)(*args)
        assert [a.tobytes() for a in again] == [a.tobytes() for a in first]


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("nn.lstm_scan", {}),
        ("nn.lstm_scan", {"reverse": True, "lengths": True}),
        ("nn.gru_scan", {}),
        ("nn.gru_scan", GRU_AFTER),
        ("nn.rnn_scan", {"reverse": True}),
    ],
)
@pytest.mark.parametrize(("batch", "units"), [(1, 256), (1, 200), (7, 256)])
@pytest.mark.shared(3)
def test_threads_share_units(name: str, attrs: dict[str, Any], batch: int, units: int) -> None:
    module, arguments = layer(name, 6, batch, units, **attrs)
    shared = units * units * GATES[name] * batch >= 1 << 16
    assert [launch_kind(k) for k in kernels(module, host())] == [LaunchKind.GANG if shared else LaunchKind.ALONE]
    check(module, arguments(6, batch))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", GATES)
@pytest.mark.shared(2)
def test_symbolic_steps_and_batch(name: str, constant: bool) -> None:
    module, arguments = layer(name, fresh("steps"), fresh("batch"), 40, constant=constant)
    for steps, batch in ((5, 1), (1, 8), (3, 5), (0, 2), (2, 0)):
        check(module, arguments(steps, batch), (2,))


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("sizes", [(3, 0, 8), (0, 2, 8), (3, 2, 0), (2, 3, 1)])
def test_empty_and_single_extents(name: str, sizes: tuple[int, int, int]) -> None:
    for constant in (True, False):
        module, arguments = layer(name, *sizes, constant=constant)
        check(module, arguments(*sizes[:2]), (2,))


@examples(10, fuzz=False, heavy=25)
@given(
    st.sampled_from(sorted(GATES)), st.integers(0, 5), st.integers(1, 9), st.integers(1, 70), st.booleans(),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_shape(name: str, steps: int, batch: int, units: int, constant: bool, reverse: bool, lengths: bool) -> None:
    module, arguments = layer(name, steps, batch, units, constant=constant, reverse=reverse, lengths=lengths)
    check(module, arguments(steps, batch), (3,))


def inner_loops(kernel: Func, target: Target) -> list[InnerLoop]:
    """The innermost loops of a kernel that multiply and add, without those of the activations, which divide."""
    found = innermost_loops(assembly(emit_module([kernel], target, {}), target))
    return [inner for inner in found if inner.count("vfmadd") > 7 and not inner.count("vdiv")]


@pytest.mark.parametrize("target", [V3, V4], ids=["v3", "v4"])
@pytest.mark.parametrize(("name", "attrs"), [("nn.lstm_scan", {}), ("nn.gru_scan", {}), ("nn.gru_scan", GRU_AFTER)])
@pytest.mark.parametrize("batch", [1, 16])
def test_sums_stay_in_registers(name: str, attrs: dict[str, Any], batch: int, target: Target) -> None:
    if missing_features(target):
        pytest.skip(f"this CPU cannot run {target.name}")
    module, _ = layer(name, 4, batch, 256, **attrs)
    (kernel,) = kernels(module, target)
    loops = inner_loops(kernel, target)
    assert loops
    assert all(30 * inner.stack_references < len(inner.instructions) for inner in loops)  # one in a loop costs nothing


# ------------------------------------------------------------------------------- cells of a user's own


def cell(name: str, step: Callable[[Tensor, Tensor, Tensor, Expr], Tensor], f: Callable[..., Array]) -> Op:
    """An operator of data [steps, units] and a weight [units, units] over one state, of which every step is kept."""

    def relation(rel: Relation, x: Type, w: Type) -> Type:
        assert isinstance(x, TensorType)
        return TupleType((x, TensorType(x.shape[1:], x.dtype)))

    def build(x: Tensor, w: Tensor, out: Type) -> tuple[Tensor, ...]:
        zero = compute(x.shape[1:], lambda i: te.const(0, x.dtype))

        def one(t: Expr, s: Tensor) -> Any:
            after = step(x, w, s, t)
            return [after], [(after, x.shape, lambda i: (t, i))]

        return scan(x.shape[0], [zero], [x, w], one)

    def reference(x: Array, w: Array) -> tuple[Array, Array]:
        state, kept = np.zeros(x.shape[1], x.dtype), []
        for row in x:
            state = f(row, w, state)
            kept.append(state)
        return np.array(kept), state

    return Op(name=name, args=("x", "w"), type_rel=relation, reference=reference, compute=build)


def _twice_step(x: Tensor, w: Tensor, s: Tensor, t: Expr) -> Tensor:
    first = reduce("sum", s.shape, s.shape, lambda i, k: w[i, k] * s[k])
    inner = compute(s.shape, lambda i: te.tanh(first[i] + x[t, i]))
    second = reduce("sum", s.shape, s.shape, lambda i, k: w[k, i] * inner[k])
    return compute(s.shape, lambda i: inner[i] * te.sigmoid(second[i]) + s[i])


def _twice(row: Array, w: Array, s: Array) -> Array:
    inner = np.tanh(w @ s + row)
    return inner / (1 + np.exp(-(w.T @ inner))) + s


def _largest_step(x: Tensor, w: Tensor, s: Tensor, t: Expr) -> Tensor:
    most = reduce("max", s.shape, s.shape, lambda i, k: w[i, k] + s[k])
    return compute(s.shape, lambda i: most[i] - x[t, i])


def _squared_step(x: Tensor, w: Tensor, s: Tensor, t: Expr) -> Tensor:
    plain = reduce("sum", s.shape, s.shape, lambda i, k: w[i, k] * s[k])
    squared = reduce("sum", s.shape, s.shape, lambda i, k: w[i, k] * (s[k] * s[k]))
    return compute(s.shape, lambda i: te.tanh(plain[i] - squared[i] + x[t, i]))


def _squared(row: Array, w: Array, s: Array) -> Array:
    return np.tanh(w @ s - w @ (s * s) + row)


OWN = [
    pytest.param(cell("squared_scan", _squared_step, _squared), LaunchKind.GANG, id="a weight that is read twice"),
    pytest.param(cell("twice_scan", _twice_step, _twice), LaunchKind.GANG, id="two products, one of the other"),
    pytest.param(
        cell("largest_scan", _largest_step, lambda row, w, s: (w + s).max(1) - row), LaunchKind.ALONE, id="not of sums"
    ),
]


@pytest.mark.parametrize(("op", "kind"), OWN)
def test_cells_of_a_users_own(op: Op, kind: LaunchKind) -> None:
    b = Builder()
    x, w = b.var("x", (5, 256)), b.var("w", (256, 256))
    module = Module.from_expr(b.function([x, w], b.call_op(op, [x, w])))
    assert [launch_kind(k) for k in kernels(module, host())] == [kind]
    check(module, [floats(5, 256), floats(256, 256)])
