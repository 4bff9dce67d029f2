"""A rule that holds for a literal holds for a symbol: every operator over every sample, its numbers written as dims.

The program with dims is made once and run for the sample's own numbers, and for 0, 1, negative and too large ones:
interpreter and compiled program give what the operator gives for literals, or refuse what it refuses, with an error of
their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.evaluate import evaluate as value_of
from legato.base.errors import CompileError, InternalError, RunError
from legato.infer.builder import Builder
from legato.interp import evaluate, evaluate_op
from legato.ir.op import Op, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.runtime.executable import Executable
from tests.ops.symbols import Sizes, Symbols, sizes_around, symbols_of
from tests.ops.test_ops import OPS, arguments, assert_close, leaves

LARGE = 50
# What decides the rank, or the number of results, is no dim.
RANKS = {"gather_nd", "gather_nd_grad", "nn.linear_scan", "scatter_nd", "squeeze",
         *(op.name for op in OPS if op.name.startswith("dyn."))}  # fmt: skip
# A size is no code: 0 and numbers below mean something else in `newshape`, as literals.
CODES = {"reshape"}


def resized(value: Any, ty: Type, sizes: Sizes) -> Any:
    """The argument with the extents that its type has at these sizes."""
    if isinstance(ty, TupleType):
        return tuple(resized(v, t, sizes) for v, t in zip(value, ty.fields, strict=True))
    assert isinstance(ty, TensorType)
    shape = tuple(int(value_of(d, sizes)) for d in ty.shape)
    if shape == value.shape:
        return value
    return np.resize(value, shape).astype(value.dtype) if value.size else np.zeros(shape, value.dtype)


def outcome(run: Callable[[], Any]) -> tuple[Any, str | None]:
    """The results, or what the refusal says; anything but a typed error is a failure of the test."""
    try:
        with np.errstate(all="ignore"):
            return run(), None
    except InternalError:
        raise
    except (RunError, CompileError) as error:
        return None, str(error)


def literally(symbols: Symbols, args: list[Any], sizes: Sizes) -> Any:
    """What the operator gives for literals; it is typed first."""
    op, types, attrs = symbols.at(sizes)
    b = Builder()
    b.call_op(op, [b.var(f"x{n}", t) for n, t in enumerate(types)], attrs)
    return evaluate_op(op, args, attrs)


def check(sample: Sample, run: Callable[[], Any], expected: tuple[Any, str | None]) -> None:
    """The program gives what literals give, or refuses where they are refused."""
    got, refusal = outcome(run)
    wanted, fault = expected
    if refusal is not None:
        assert fault is not None, f"refused: {refusal}"
        return
    assert fault is None, f"accepted, where literals give: {fault}"
    for x, y in zip(leaves(got), leaves(wanted), strict=True):
        assert_close(np.asarray(x), np.asarray(y), sample)


def try_all(op: Op, sample: Sample, compiled: bool) -> None:
    """The sample as a program with dims, at all sizes."""
    values = arguments(op, sample)
    symbols = symbols_of(op, values, sample)
    if op.name in CODES:
        symbols = symbols.without_numbers()
    if not symbols.sizes:
        return
    module, refusal = outcome(symbols.module)
    if refusal is not None and op.name in RANKS:
        return
    assert refusal is None
    exe: Executable | None = legato.compile(module) if compiled else None
    for sizes in sizes_around(symbols, LARGE):
        args = [resized(v, t, sizes) for v, t in zip(values, symbols.types, strict=True)]
        witness = np.zeros([sizes[v] for v in symbols.sizes], np.bool_)
        expected = outcome(lambda args=args, sizes=sizes: literally(symbols, args, sizes))  # type: ignore[misc]
        check(sample, lambda w=witness, args=args: evaluate(module, [w, *args]), expected)  # type: ignore[misc]
        if exe is not None:
            flat = [x for a in args for x in leaves(a)]
            check(sample, lambda w=witness, flat=flat: exe(w, *flat), expected)  # type: ignore[misc]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_interpreted(op: Op) -> None:
    for sample in op.samples:
        try_all(op, sample, compiled=False)


@pytest.mark.parametrize("op", [op for op in OPS if op.compute], ids=lambda op: op.name)
def test_compiled(op: Op) -> None:
    """One sample of each operator, and a second one where its attributes take dims."""
    symbolic = [s for s in op.samples if symbols_of(op, arguments(op, s), s).sizes]
    takes = [s for s in symbolic if symbols_of(op, arguments(op, s), s).numbers]
    for sample in takes[:2] or symbolic[:1]:
        try_all(op, sample, compiled=True)


def test_elements_that_there_are_none_of_become_as_many() -> None:
    """What both sizes have in common may be 0."""
    module = legato.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, 0), float32]) { reshape(%x, newshape=[0]) }')
    exe = legato.compile(module)
    for run in (lambda x: evaluate(module, [x]), exe):
        assert run(np.zeros((0, 0), np.float32)).shape == (0,)
        with pytest.raises(RunError, match="number of elements"):
            run(np.zeros((2, 0), np.float32))


@pytest.mark.parametrize("n", [0, 1, 3])
def test_a_dim_on_both_sides_cancels_also_where_it_is_0(n: int) -> None:
    rows = "reshape(reshape(%x, newshape=[dim[1], dim[n * 2]]), newshape=[-1, n, 2])"
    module = legato.parse(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, 2), float32]) {{ {rows} }}')
    x = np.arange(2 * n, dtype=np.float32).reshape(n, 2)
    for run in (lambda x: evaluate(module, [x]), legato.compile(module)):
        np.testing.assert_array_equal(run(x), x[None])
