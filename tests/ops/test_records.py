"""One generic test of every operator's record: over every sample, its numbers written as dims.

A rule that holds for a literal holds for a symbol. The program with dims is made once and run for the sample's own
numbers, and for 0, 1, negative and too large ones: interpreter, compiled program, gradient and what its text means give
what the operator gives for literals, or refuse what it refuses, with a RunError. Floats that are none, and infinite
ones, compiled: as the reference has them.

The default run tries a part of the samples, the same in every run; `make fuzz-records` all, with every access to memory
tested, and for three levels of instructions.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.evaluate import evaluate as value_of
from legato.autodiff import vjp
from legato.autodiff.program import main_of
from legato.base import dtype as dt
from legato.base.errors import CompileError, InternalError, RunError, TypeCheckError, UnsupportedError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate, evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.equal import alpha_equal
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.op import Op, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops import table
from legato.transform._gradient.cotangents import is_continuous
from legato.transform.expand_calls import ExpandCalls
from tests.ops.symbols import Sizes, Symbols, at_sizes, sizes_around, symbols_of
from tests.ops.test_ops import OPS, arguments, assert_close, call, fits, leaves, leaves_of_type, type_of

LARGE = 50
# A literal below 1 is a code in the new shapes of these, a dim an extent.
RESHAPES = table()["reshape"], table()["contrib_reverse_reshape"]
ALL = bool(os.environ.get("LEGATO_FUZZ"))


Outcome = tuple[Any, str | None]  # what a run gives, and what its refusal says


def chosen(share: int, ops: Iterable[Op] = OPS, always: Collection[str] = ()) -> list[Any]:
    """The samples that a test tries: of the default run one of `share`, the same in any run, and those of `always`."""
    return [
        pytest.param(op, sample, id=f"{op.name}-{n}")
        for op in ops
        for n, sample in enumerate(op.samples)
        if ALL or f"{op.name}-{n}" in always or zlib.crc32(f"{op.name} {n}".encode()) % share == 0
    ]


def resized(value: Any, ty: Type, sizes: Sizes) -> Any:
    """The argument with the extents that its type has at these sizes."""
    if isinstance(ty, TupleType):
        return tuple(resized(v, t, sizes) for v, t in zip(value, ty.fields, strict=True))
    assert isinstance(ty, TensorType)
    shape = tuple(int(value_of(d, sizes)) for d in ty.shape)
    if shape == value.shape:
        return value
    return np.resize(value, shape).astype(value.dtype) if value.size else np.zeros(shape, value.dtype)


def outcome(run: Callable[[], Any], refusals: tuple[type[Exception], ...] = (RunError, CompileError)) -> Outcome:
    """The results, or what the refusal says; any other error is a failure of the test."""
    try:
        with np.errstate(all="ignore"):
            return run(), None
    except InternalError:
        raise
    except refusals as error:
        return None, str(error)


def literally(symbols: Symbols, args: list[Any], sizes: Sizes) -> Any:
    """What the operator gives for literals; it is typed first."""
    op, types, attrs = symbols.at(sizes)
    if op in RESHAPES and symbols.numbers:
        if min(attrs.newshape, default=0) < 0:
            raise RunError("an extent below 0")
        attrs = replace(attrs, allowzero=True)
    b = Builder()
    b.call_op(op, [b.var(f"x{n}", t) for n, t in enumerate(types)], attrs)
    return evaluate_op(op, args, attrs)


def check(sample: Sample, run: Callable[[], Any], expected: Outcome) -> None:
    """The program gives what literals give, or refuses when it runs where they are refused."""
    got, refusal = outcome(run, (RunError,))
    wanted, fault = expected
    if refusal is not None:
        assert fault is not None, f"refused: {refusal}"
        return
    assert fault is None, f"accepted, where literals give: {fault}"
    for x, y in zip(leaves(got), leaves(wanted), strict=True):
        assert_close(np.asarray(x), np.asarray(y), sample)


def with_dims(op: Op, values: list[Any], sample: Sample) -> tuple[Symbols, Module]:
    """The sample with dims for all numbers and its program. Where extents decide a rank, or how many results there
    are, they stay as they are."""
    symbols = symbols_of(op, values, sample)
    if op in RESHAPES and min(map(int, sample.attrs["newshape"]), default=1) < 1:
        symbols = symbols.without_numbers()
    refusal = None
    for part in (symbols, symbols.without_extents()):
        if not part.sizes:
            pytest.skip("no number in it may be a dim")
        module, refusal = outcome(part.module, (TypeCheckError,))
        if refusal is None:
            return part, module
    raise AssertionError(refusal)


Trial = tuple[Sizes, list[Any], Outcome]


def trials(symbols: Symbols, values: list[Any]) -> Iterator[Trial]:
    """All sizes, with the arguments of the program with dims, and what literals give."""
    for sizes in sizes_around(symbols, LARGE):
        args = [resized(v, t, sizes) for v, t in zip(values, symbols.types, strict=True)]
        witness = np.zeros([sizes[v] for v in symbols.sizes], np.bool_)
        yield sizes, [witness, *args], outcome(partial(literally, symbols, args, sizes))


def flat(args: list[Any]) -> list[Any]:
    """Arguments as compiled programs take them."""
    return [x for a in args for x in leaves(a)]


@pytest.mark.parametrize(("op", "sample"), chosen(3))
def test_interpreted(op: Op, sample: Sample) -> None:
    """Type, text and result."""
    values = arguments(op, sample)
    symbols, module = with_dims(op, values, sample)
    assert alpha_equal(infer(legato.parse(str(infer(module)))), infer(module))
    ty = main_of(module).body.ty
    assert ty is not None
    for sizes, args, expected in trials(symbols, values):
        check(sample, partial(evaluate, module, args), expected)
        if expected[1] is None:
            assert all(map(fits, leaves_of_type(at_sizes(ty, sizes)), leaves(expected[0])))


FAILED = {"matrix_set_diag-2", "matrix_set_diag-3", "qnn.dequantize-5", "rdft-4"}  # once; they are tried in any run


@pytest.mark.parametrize(("op", "sample"), chosen(6, [op for op in OPS if op.expand], FAILED))
def test_expanded(op: Op, sample: Sample) -> None:
    """What an operator is made of gives what its reference gives; it is not compiled, so many are tried."""
    values = arguments(op, sample)
    symbols, module = with_dims(op, values, sample)
    expanded = ExpandCalls()(infer(module))
    for _, args, expected in trials(symbols, values):
        check(sample, partial(evaluate, expanded, args), expected)


@pytest.mark.parametrize(("op", "sample"), chosen(24))
def test_compiled(op: Op, sample: Sample) -> None:
    values = arguments(op, sample)
    symbols, module = with_dims(op, values, sample)
    exe = legato.compile(module)
    for _, args, expected in trials(symbols, values):
        check(sample, partial(exe, *flat(args)), expected)


def has_floats(values: list[Any], result: Any) -> bool:
    """Whether there is a float to differentiate, and one to differentiate by."""
    return is_continuous(type_of(result)) and any(is_continuous(type_of(v)) for v in values)


def cotangent(value: Any) -> Any:
    """Some cotangent of a value."""
    if isinstance(value, tuple):
        return tuple(map(cotangent, value))
    wave = np.cos(np.arange(value.size)).reshape(value.shape)
    return wave.astype(value.dtype) if dt.dtype(value.dtype).is_float else value


def with_literals(symbols: Symbols, sizes: Sizes) -> Module:
    """The program for literals, with the witness that the one with dims has."""
    _, types, attrs = symbols.at(sizes)
    return replace(symbols, types=types, attrs=attrs, sizes=sizes).module()


def try_gradients(op: Op, sample: Sample, compiled: bool) -> None:
    """The gradient of the program with dims is that of the program with literals, at all sizes."""
    values, sums = arguments(op, sample), replace(sample, exact=False)
    with np.errstate(all="ignore"):
        if not has_floats(values, evaluate_op(op, values, make_attrs(op, sample.attrs))):
            pytest.skip("nothing to differentiate")
    symbols, module = with_dims(op, values, sample)
    gradient, refusal = outcome(partial(vjp, module), (UnsupportedError,))
    exe = legato.compile(gradient) if compiled and refusal is None else None
    for sizes, args, (value, fault) in trials(symbols, values):
        if fault is not None:
            continue
        args.append(cotangent(value))
        wanted = outcome(lambda s=sizes, a=args: evaluate(vjp(with_literals(symbols, s)), a))  # type: ignore[misc]
        assert refusal is None or wanted[1] is not None, refusal
        if exe is not None:
            check(sums, partial(exe, *flat(args)), wanted)
        elif refusal is None:
            check(sums, partial(evaluate, gradient, args), wanted)


DIFFERENTIABLE = [op for op in OPS if op.grad or op.expand]


@pytest.mark.parametrize(("op", "sample"), chosen(40, DIFFERENTIABLE))
def test_gradients(op: Op, sample: Sample) -> None:
    try_gradients(op, sample, compiled=False)


@pytest.mark.parametrize(("op", "sample"), chosen(400, DIFFERENTIABLE))
def test_compiled_gradients(op: Op, sample: Sample) -> None:
    try_gradients(op, sample, compiled=True)


# References by fast transforms: what of their results is NaN, infinite or finite follows from their algorithm.
TRANSFORMS = {"dft", "rdft", "stft"}
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)


def special(value: Any, rng: np.random.Generator) -> Any:
    """`value` with floats that are none, and infinite ones, in a third of the places."""
    if isinstance(value, tuple):
        return tuple(special(v, rng) for v in value)
    if not dt.dtype(value.dtype).is_float:
        return value
    return np.where(rng.random(value.shape) < 0.3, rng.choice(SPECIAL, value.shape), value).astype(value.dtype)


@pytest.mark.parametrize(("op", "sample"), chosen(24, [op for op in OPS if op.name not in TRANSFORMS]))
def test_no_numbers_and_infinite_ones(op: Op, sample: Sample) -> None:
    rng = np.random.default_rng(7)
    values = arguments(op, sample)
    if not any(is_continuous(type_of(v)) for v in values):
        pytest.skip("no float in it")
    values = [special(v, rng) for v in values]
    params, node = call(op, values, sample)
    module = Module.from_expr(Function(tuple(params), node))
    exe, refusal = outcome(partial(legato.compile, module, precision="exact"), (UnsupportedError,))
    if refusal is None:
        expected = outcome(partial(evaluate_op, op, values, make_attrs(op, sample.attrs)))
        check(sample, partial(exe, *flat(values)), expected)


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
