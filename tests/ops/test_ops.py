"""Every operator over every one of its samples: one test per property, read from the records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.arith.expr import Const
from legato.base import dtype as dt
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate, evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.call_tir import CALL_TIR
from legato.ir.equal import alpha_equal
from legato.ir.expr import Expr, Function, Var
from legato.ir.module import Module
from legato.ir.op import Op, Sample
from legato.ir.parser import parse
from legato.ir.types import TensorType, TupleType, Type, tensor_type
from legato.ops import table
from legato.te.lower import to_tir
from legato.te.tensor import Tensor, placeholder
from legato.tir import interp as tir_interp

OPS = [op for op in table().values() if op is not CALL_TIR]
CASES = [pytest.param(op, s, id=f"{op.name}-{n}") for op in OPS for n, s in enumerate(op.samples)]
COMPUTED = [pytest.param(op, s, id=f"{op.name}-{n}") for op in OPS if op.compute for n, s in enumerate(op.samples)]


# ------------------------------------------------------------------ samples


def fill(argument: Any, rng: np.random.Generator) -> Any:
    """The array of a sample's argument: (shape, dtype) pairs are filled with random data, lists are tuples of these."""
    if isinstance(argument, list):
        return tuple(fill(a, rng) for a in argument)
    if isinstance(argument, np.ndarray | np.generic):
        return np.asarray(argument)
    shape, dtype = argument[0], dt.dtype(argument[1])
    if dtype.is_float:
        return np.asarray(rng.standard_normal(shape)).astype(dtype.numpy)
    if dtype.is_bool:
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.integers(max(dtype.min, -9), 10, shape)).astype(dtype.numpy)


def arguments(op: Op, sample: Sample) -> list[Any]:
    """The values of a sample as the reference takes them: a variadic operator's arrays are one tuple."""
    rng = np.random.default_rng(7)
    arrays = [fill(a, rng) for a in sample.args]
    if op.args and op.args[-1].startswith("*"):
        fixed = len(op.args) - 1
        return [*arrays[:fixed], tuple(arrays[fixed:])]
    return arrays


def type_of(value: Any) -> Type:
    """The type of an array, or of a tuple of arrays."""
    if isinstance(value, tuple):
        return TupleType(tuple(type_of(v) for v in value))
    return tensor_type(value.shape, dt.dtype(value.dtype))


def call(op: Op, values: list[Any], sample: Sample) -> tuple[list[Var], Expr]:
    """The call of `op` on fresh parameters with the types of `values`."""
    b = Builder()
    params = [b.var(f"x{n}", type_of(v)) for n, v in enumerate(values)]
    return params, b.call_op(op, params, make_attrs(op, sample.attrs))


def leaves(value: Any) -> list[Any]:
    """The arrays (tensors, types) in a tuple of them."""
    return [x for v in value for x in leaves(v)] if isinstance(value, tuple) else [value]


def assert_close(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], sample: Sample) -> None:
    """Equal, or within the sample's tolerance of the largest finite element; NaN and ±∞ at the same places."""
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    kind, size = dt.dtype(wanted.dtype).kind, wanted.dtype.itemsize
    if kind in ("bfloat", "storage"):  # NumPy knows no NaN of them
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
    if sample.exact or not dt.dtype(wanted.dtype).is_float:
        np.testing.assert_array_equal(got, wanted)
        return
    x, y = got.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
    np.testing.assert_array_equal(np.isposinf(x), np.isposinf(y))
    np.testing.assert_array_equal(np.isneginf(x), np.isneginf(y))
    finite = np.isfinite(y)
    scale = np.abs(y[finite]).max(initial=0.0)
    steps = {2: 2.0**-8 if kind == "bfloat" else 2.0**-10}.get(size, 0.0)
    assert np.abs(x[finite] - y[finite]).max(initial=0.0) <= max(sample.rtol, 4 * steps) * scale + 1e-30


# ------------------------------------------------------------------ properties


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_record_is_complete(op: Op) -> None:
    assert op.doc.endswith((".", "\n")), "a sentence"
    assert op.samples
    assert callable(op.reference)
    assert callable(op.type_rel)


@pytest.mark.parametrize(("op", "sample"), CASES)
def test_type_agrees_with_reference(op: Op, sample: Sample) -> None:
    values = arguments(op, sample)
    _, node = call(op, values, sample)
    result = evaluate_op(op, values, make_attrs(op, sample.attrs))
    assert node.ty is not None
    for ty, array in zip(leaves_of_type(node.ty), leaves(result), strict=True):
        assert fits(ty, array), f"{ty} does not fit an array of {array.dtype}{array.shape}"


def leaves_of_type(ty: Type) -> list[TensorType]:
    """The tensor types in a type."""
    if isinstance(ty, TupleType):
        return [t for f in ty.fields for t in leaves_of_type(f)]
    assert isinstance(ty, TensorType)
    return [ty]


def fits(ty: TensorType, array: np.ndarray[Any, Any]) -> bool:
    """True if the array has the type; a symbolic dim may be anything."""
    if ty.dtype.numpy != array.dtype or ty.rank != array.ndim:
        return False
    return all(not isinstance(d, Const) or d.value == n for d, n in zip(ty.shape, array.shape, strict=True))


@pytest.mark.parametrize(("op", "sample"), CASES)
@pytest.mark.shared(2)
def test_inference_agrees_with_builder(op: Op, sample: Sample) -> None:
    params, node = call(op, arguments(op, sample), sample)
    module = infer(Module.from_expr(Function(tuple(params), node)))
    func = module["main"]
    assert isinstance(func, Function)
    assert infer(module) is module


@pytest.mark.parametrize(("op", "sample"), CASES)
@pytest.mark.shared(2)
def test_text_round_trip(op: Op, sample: Sample) -> None:
    params, node = call(op, arguments(op, sample), sample)
    module = infer(Module.from_expr(Function(tuple(params), node)))
    assert alpha_equal(infer(parse(str(module), ops=table())), module)


@pytest.mark.parametrize(("op", "sample"), CASES)
@pytest.mark.shared(2)
def test_interpreter_runs_the_reference(op: Op, sample: Sample) -> None:
    values = arguments(op, sample)
    params, node = call(op, values, sample)
    result = evaluate(Module.from_expr(Function(tuple(params), node)), values)
    expected = evaluate_op(op, values, make_attrs(op, sample.attrs))
    for got, wanted in zip(leaves(result), leaves(expected), strict=True):
        assert_close(got, wanted, Sample((), exact=True))


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A copy that cannot be written."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize(("op", "sample"), CASES)
@pytest.mark.shared(2)
def test_arguments_are_left_alone(op: Op, sample: Sample) -> None:
    kept = arguments(op, sample)
    values = [tuple(map(frozen, v)) if isinstance(v, tuple) else frozen(v) for v in kept]
    evaluate_op(op, values, make_attrs(op, sample.attrs))
    for got, wanted in zip(leaves(tuple(values)), leaves(tuple(kept)), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("op", "sample"), COMPUTED)
def test_compute_equals_reference(op: Op, sample: Sample) -> None:
    values = arguments(op, sample)
    _, node = call(op, values, sample)
    attrs = make_attrs(op, sample.attrs)
    result = run_compute(op, values, attrs, node.ty)
    expected = evaluate_op(op, values, attrs)
    for got, wanted in zip(result, leaves(expected), strict=True):
        assert_close(got, wanted, sample)


def run_compute(op: Op, values: list[Any], attrs: Any, ty: Type | None) -> list[np.ndarray[Any, Any]]:
    """The operator's te definition, as naive loops, on arrays."""
    assert op.compute is not None
    assert ty is not None
    inputs: list[Tensor] = []

    def tensor(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(tensor(v) for v in value)
        inputs.append(placeholder(f"x{len(inputs)}", value.shape, dt.dtype(value.dtype)))
        return inputs[-1]

    tensors = [tensor(v) for v in values]
    outputs = leaves(op.compute(*tensors, *op.tail(attrs), ty))
    func = to_tir(outputs, inputs, op.name.replace(".", "_"))
    results = [np.zeros([int(str(d)) for d in t.shape], t.dtype.numpy) for t in outputs]
    with np.errstate(all="ignore"):
        status = tir_interp.run(func, [*(np.array(v) for v in leaves(tuple(values))), *results])
    assert status == 0
    return results
