"""Loop programs as tensor expressions: what is read means what was written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from legato.arith.evaluate import evaluate
from legato.arith.expr import Var
from legato.infer.builder import Builder
from legato.ir.expr import Call
from legato.ir.op import Op
from legato.ir.types import TupleType
from legato.lower.group import tensor_types
from legato.ops import table
from legato.te.lower import to_tir
from legato.te.order import in_order
from legato.te.parts import is_broadcast, is_contraction, is_elementwise, parts
from legato.te.readback import Stages, read_back
from legato.te.tensor import Loops, Stage, Tensor, placeholder
from legato.tir import interp
from legato.tir.buffer import Buffer
from legato.tir.parser import parse_func
from legato.tir.sealed import sealed
from legato.tir.stmt import Func
from legato.tir.walk import buffers_written
from tests.te.kernels import READ, UNREAD
from tests.te.random_kernels import kernel

COUNT = int(os.environ.get("LEGATO_FUZZ", "80"))
SIZES = ((0, 2), (2, 0), (1, 1), (3, 2), (2, 4))

Array = np.ndarray[Any, Any]


def results(func: Func, sizes: Mapping[str, int], outputs: int) -> list[Array]:
    """What a kernel stores for random inputs, its dims having sizes by name."""
    rng = np.random.default_rng(len(sizes) + sum(sizes.values()))
    dims = {p: sizes[p.name] for p in func.params if isinstance(p, Var)}
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    given = []
    for n, b in enumerate(buffers):
        shape = [int(evaluate(d, dims)) for d in b.shape]
        made = np.zeros(shape) if n >= len(buffers) - outputs else rng.standard_normal(shape) * 3
        given.append(np.asarray(made, b.dtype.numpy))
    with np.errstate(all="ignore"):
        assert interp.run(func, [*given, *dims.values()]) == 0
    return given[len(buffers) - outputs :]


def outputs_of(func: Func) -> int:
    return sum(isinstance(p, Buffer) and p in buffers_written(func) for p in func.params)


def fault(func: Func, stages: Stages) -> str | None:
    """What is wrong with the stages of a kernel; None where nothing is."""
    again = to_tir(stages.outputs, stages.inputs, "again")
    count = len(stages.outputs)
    for n, m in SIZES:
        sizes = dict.fromkeys("abcdefghijklopqrstuvwxyz", n) | {"n": n, "m": m, "p": n + 1}
        if "- 3" in str(func):  # a window of 3
            sizes["n"] = n + 3
        for a, b in zip(results(func, sizes, count), results(again, sizes, count), strict=True):
            if not np.allclose(a, b, 1e-4, 1e-5, equal_nan=True):
                return f"n={n}, m={m}: {b}, wanted {a}\n{func}\n{again}"
    return None


def letter(t: Tensor) -> str:
    if is_contraction(t):
        return "C"
    if isinstance(t.stage, Stage) and t.stage.reduction is not None:
        return "R"
    return "E" if is_elementwise(t) else "B" if is_broadcast(t) else "I"


@pytest.mark.parametrize("name", READ)
def test_what_people_write_is_read(name: str) -> None:
    wanted, text = READ[name]
    func = parse_func(text)
    stages = read_back(func, outputs_of(func))
    assert isinstance(stages, Stages), stages
    assert " ".join("".join(map(letter, in_order(p.outputs, p.inputs))) for p in parts(stages.outputs)) == wanted
    assert fault(sealed(func), stages) is None


@pytest.mark.parametrize("name", UNREAD)
def test_what_is_no_tensor_expression_is_not(name: str) -> None:
    wanted, text = UNREAD[name]
    func = parse_func(text)
    reason = read_back(func, outputs_of(func))
    assert isinstance(reason, str)
    assert wanted in reason


def stages_of(op: Op) -> tuple[list[Tensor], list[Tensor]] | None:
    """The inputs and outputs of the first sample of an operator; None where it has no stages."""
    if op.compute is None or op.stateful or not op.samples:
        return None
    sample, b = op.samples[0], Builder()
    args = [b.var("x", *a) if isinstance(a, tuple) else b.constant(a) for a in sample.args]
    call = b.call(op, *args, **sample.attrs)
    assert isinstance(call, Call)
    found = [[placeholder("x", t.shape, t.dtype) for t in tensor_types(a.ty)] for a in call.args]
    operands = [tuple(ts) if isinstance(a.ty, TupleType) else ts[0] for a, ts in zip(call.args, found, strict=True)]
    made = op.compute(*operands, *op.tail(call.attrs), call.ty)
    return [t for ts in found for t in ts], list(made) if isinstance(made, tuple) else [made]


def test_loops_of_operators_are_read() -> None:
    unread = set()
    for op in table().values():
        found = stages_of(op)
        if found is None or any(isinstance(t.stage, Loops) for t in in_order(found[1])):
            continue
        inputs, outputs = found
        if isinstance(read_back(to_tir(outputs, inputs, "k"), len(outputs)), str):
            unread.add(op.name)
    # int64 subscripts may be so large that what wraps them does not fit into 64 bits; where the data chose, it may say
    # anything. Both are clamped where they are compiled.
    assert unread <= {"gather_nd", *(name for name in unread if name.endswith("_take") and "pool" in name)}


def test_what_is_read_means_what_was_written() -> None:
    read = 0
    for seed in range(COUNT):
        func = sealed(parse_func(kernel(seed)))
        stages = read_back(func, 2)
        if isinstance(stages, Stages):
            assert fault(func, stages) is None, f"seed {seed}"
            read += 1
    assert read > COUNT * 0.25
