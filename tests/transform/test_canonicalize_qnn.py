"""Quantised operators as integer arithmetic: the codes that the operators' references give, bit for bit."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import TypeCheckError
from legato.base.node import post_order
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate, evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.expr import Call, Expr, constant
from legato.ir.module import Module
from legato.ir.op import Op, Sample
from legato.ir.parser import parse
from legato.ops import table
from legato.transform.canonicalize_qnn import CanonicalizeQnn
from legato.transform.expand_calls import ExpandCalls
from tests.ops.test_ops import arguments, leaves, type_of

QUANTISED = [op for name, op in table().items() if name.startswith(("qnn.", "fixed_point"))]
CASES = [pytest.param(op, s, id=f"{op.name}-{n}") for op in QUANTISED for n, s in enumerate(op.samples)]
ROUNDED_TWICE = {"qnn.softmax"}  # exponentials of a kernel differ in their last bits: a code may be another
DATA = {"data", "lhs", "rhs", "x", "y", "weight"}


def _program(op: Op, values: list[Any], attrs: Any, known: bool) -> tuple[Module, list[Any]]:
    """A call whose data are parameters; scales and zero points are, too, or constants."""
    b, given = Builder(), []
    args: list[Expr] = []
    params = []
    for name, v in zip(op.args, values, strict=True):
        if known and name not in DATA:
            args.append(b.tuple_(list(map(constant, v))) if isinstance(v, tuple) else constant(v))
        else:
            params.append(b.var(f"x{len(params)}", type_of(v)))
            args.append(params[-1])
            given.append(v)
    return Module.from_expr(b.function(params, b.call_op(op, args, attrs))), given


@pytest.mark.parametrize("known", [True, False], ids=["constants", "parameters"])
@pytest.mark.parametrize(("op", "sample"), CASES)
def test_samples(op: Op, sample: Sample, known: bool) -> None:
    values, attrs = arguments(op, sample), make_attrs(op, sample.attrs)
    mod, given = _program(op, values, attrs, known)
    new = CanonicalizeQnn()(mod) if op.name.startswith("qnn.") else ExpandCalls()(mod)
    assert not any(isinstance(n, Call) and n.op in QUANTISED for n in post_order([new["main"]]))
    wanted = evaluate_op(op, values, attrs)
    with np.errstate(all="ignore"):
        got = evaluate(new, given)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("op", QUANTISED, ids=lambda op: op.name)
@pytest.mark.shared(3)
def test_compiled(op: Op) -> None:
    """One program of all samples, natively: scales as constants in the first half of results, then as parameters."""
    b, given, wanted = Builder(), [], []
    params, results = [], []
    for known in (True, False):
        for sample in op.samples:
            values, attrs = arguments(op, sample), make_attrs(op, sample.attrs)
            args: list[Expr] = []
            for name, v in zip(op.args, values, strict=True):
                fixed = known and name not in DATA
                fields = []
                for leaf in leaves(v):
                    fields.append(constant(leaf) if fixed else b.var(f"x{len(params)}", type_of(leaf)))
                    if not fixed:
                        params.append(fields[-1])
                        given.append(leaf)
                args.append(b.tuple_(fields) if isinstance(v, tuple) else fields[0])
            results.append(b.call_op(op, args, attrs))
            wanted.append(evaluate_op(op, values, attrs))
    exe = legato.compile(Module.from_expr(b.function(params, b.tuple_(results))))
    assert exe.stats["host_operators"] == 0
    compare = partial(np.testing.assert_allclose, atol=1, rtol=0)
    for got, want in zip(exe(*given), wanted, strict=True):
        assert got.dtype == want.dtype
        (compare if op.name in ROUNDED_TWICE else np.testing.assert_array_equal)(got, want)


@pytest.mark.parametrize(("rounding", "wanted"), [
    ("UPWARD", [-2, -1, 0, 1, 2, 3]), ("TONEAREST", [-3, -2, -1, 1, 2, 3]), ("TONEVEN", [-2, -2, 0, 0, 2, 2]),
])  # fmt: skip
@pytest.mark.parametrize("compute", ["int64", "float32", "float64"])
def test_halves(rounding: str, compute: str, wanted: list[int]) -> None:
    b = Builder()
    x = b.var("x", (6,), "int32")
    y = b.qnn.requantize(x, np.float32(0.5), 0, np.float32(1), 0, rounding=rounding, compute_dtype=compute)
    mod = Module.from_expr(b.function([x], y))
    halves = np.array([-5, -3, -1, 1, 3, 5], np.int32)
    for program in (mod, CanonicalizeQnn()(mod)):
        np.testing.assert_array_equal(evaluate(program, [halves]), wanted)


def test_scales_that_no_sum_needs_are_computed_for_their_effects() -> None:
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(2, 3), int8]) {
      let %r = ref(1f);
      let %y = qnn.dense(%x, %x, 0, 0, { ref_write(%r, 5f); 0.5f }, { ref_write(%r, ref_read(%r) * 2f); 0.1f });
      (%y, ref_read(%r))
    }"""
    mod = infer(parse(text, ops=table()))
    x = np.ones((2, 3), np.int8)
    assert evaluate(mod, [x])[1] == evaluate(CanonicalizeQnn()(mod), [x])[1] == legato.compile(mod)(x)[1] == 10


@pytest.mark.parametrize("known", [True, False], ids=["constants", "parameters"])
@pytest.mark.parametrize("rounding", ["UPWARD", "TONEAREST", "TONEVEN"])
def test_fixed_point_is_the_product_within_a_step(rounding: str, known: bool) -> None:
    """31 bits of a factor err by less than 2⁻³¹ of it: sums below 2²⁴ by less than a step of any result."""
    rng = np.random.default_rng(0)
    x = rng.integers(-(1 << 24), 1 << 24, (64, 200)).astype(np.int32)
    scales = (2.0 ** rng.uniform(-30, 6, 200)).astype(np.float32)
    attrs = {"axis": 1, "rounding": rounding, "out_dtype": "int32"}
    values = [x, scales, np.array(0, np.int32), np.array(0.7, np.float32), np.array(0, np.int32)]
    op = table()["qnn.requantize"]
    mod, given = _program(op, values, make_attrs(op, attrs), known)
    got = evaluate(CanonicalizeQnn()(mod), given)
    np.testing.assert_array_equal(got, evaluate(mod, given))
    exact = x.astype(np.float64) * (scales.astype(np.float64) / np.float64(np.float32(0.7)))
    assert np.abs(got - exact).max() <= 1.0 + 2.0**-31 * np.abs(exact).max()


@pytest.mark.parametrize("axes", [(1, 0), (1, 1), (-1, 1)])
def test_factors_along_axes_in_another_order_are_refused(axes: tuple[int, int]) -> None:
    b = Builder()
    x, factor = b.var("x", (3, 3), "int32"), b.constant(np.ones((3, 3), np.int32))
    with pytest.raises(TypeCheckError, match="each once, in ascending order"):
        b.op("fixed_point_multiply_per_axis")(x, factor, factor, factor, axes=axes)


def test_dtypes_are_named_by_integers() -> None:
    """A float between two of these would be another to the reference than to the program."""
    b = Builder()
    x, scale = b.var("x", (3,), "float32"), b.constant(np.float32(0.5))
    for name in ("qnn.simulated_quantize", "qnn.simulated_dequantize"):
        with pytest.raises(TypeCheckError, match="dtype has dtype float32"):
            b.op(name)(x, b.constant(np.float32(1.5)), scale, b.constant(0))
