"""The rules of Simplify and Reassociate: each side equals the other, and the pass makes the one of the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.base.dtype import dtype
from legato.infer.infer import infer, infer_function
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Function, Var
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.types import tensor_type
from legato.ir.visit import substitute
from legato.ops import table as operators
from legato.patterns import Equation, rule
from legato.testing import check_rule
from legato.transform.eliminate_common import EliminateCommon
from legato.transform.pass_ import Pass
from legato.transform.reassociate import Reassociate
from legato.transform.simplify import Simplify

# The rule, and the dtypes that it is for.
EXACT = [
    ("add(add(%x, 2), 3) => add(%x, 5)", "int32"),
    ("add(2147483647, add(%x, 3)) => add(%x, -2147483646)", "int32"),
    ("multiply(multiply(%x, 2), 3) => multiply(%x, 6)", "int32"),
    ("add(%x, 0) => %x", "int32"),
    ("add(-0f, %x) => %x", "float32"),
    ("subtract(%x, 0f) => %x", "float32"),
    ("multiply(1f, %x) => %x", "float32"),
    ("divide(%x, 1f) => %x", "float32"),
    ("divide(1f, sqrt(%x)) => rsqrt(%x)", "float32"),
    ("divide(1f64, sqrt(%x)) => rsqrt(%x)", "float64"),
    ('cast(cast(%x, dtype="float32"), dtype="int8") => cast(%x, dtype="int8")', "float16"),
    ('cast(cast(%x, dtype="float32"), dtype="bool") => cast(%x, dtype="bool")', "float16"),
    ('cast(cast(%x, dtype="float64"), dtype="float16") => cast(%x, dtype="float16")', "float32"),
    ('cast(cast(%x, dtype="float32"), dtype="bfloat16") => %x', "bfloat16"),
    ('cast(cast(%x, dtype="float16"), dtype="int64") => cast(%x, dtype="int64")', "uint8"),
    ('cast(cast(%x, dtype="int32"), dtype="uint8") => cast(%x, dtype="uint8")', "int8"),
    ('cast(cast(%x, dtype="int8"), dtype="float32") => cast(%x, dtype="float32")', "bool"),
    ("clip(clip(%x, a_min=-3f, a_max=6f), a_min=-6f, a_max=2f) => clip(%x, a_min=-3f, a_max=2f)", "float32"),
    ("clip(clip(%x, a_min=-3f), a_max=2f) => clip(%x, a_min=-3f, a_max=2f)", "float16"),
    ("clip(clip(%x, a_min=-3f, a_max=6f), a_min=0f, a_max=900f) => clip(%x, a_min=0f, a_max=6f)", "int8"),
    ("clip(%x, a_min=-128f, a_max=127f) => %x", "int8"),
    ("clip(%x, a_min=-1f) => %x", "uint8"),
]
STATIC = [  # of tensors of 2 × 3
    ("zeros_like(%x) => zeros(shape=[2, 3], dtype=float32)", "float32"),
    ("ones_like(%x) => ones(shape=[2, 3], dtype=int8)", "int8"),
    ("full_like(%x, 3f) => full(3f, shape=[2, 3])", "float32"),
    ("add(%x, full(3f, shape=[2, 3])) => add(%x, 3f)", "float32"),
    ("power(ones(shape=[3], dtype=float32), %x) => power(1f, %x)", "float32"),
    ("subtract(zeros(shape=[1], dtype=int32), %x) => subtract(0, %x)", "int32"),
    ("multiply(broadcast_to(full(2f, shape=[1, 1]), shape=[2, 3]), %x) => multiply(2f, %x)", "float32"),
    (
        "add(%x, broadcast_to(sum(%x, axis=[1], keepdims=True), shape=[2, 3]))"
        " => add(%x, sum(%x, axis=[1], keepdims=True))",
        "float32",
    ),
    ("subtract(reshape(sum(%x, axis=[0]), newshape=[1, 3]), %x) => subtract(sum(%x, axis=[0]), %x)", "float32"),
    ("add(%x, sum(full(3f16, shape=[682]))) => add(%x, 2046f16)", "float16"),
    ("add(%x, sum(full(-3f, shape=[0]))) => add(%x, 0f)", "float32"),
    ("add(%x, multiply(full(2f, shape=[3]), full(4f, shape=[3]))) => add(%x, multiply(2f, 4f))", "float32"),
]
ROUNDING = [
    "add(add(%x, 2f), 3f) => add(%x, 5f)",
    "multiply(multiply(%x, 2f), 3f) => multiply(%x, 6f)",
    "multiply(add(%x, 2f), 3f) => add(multiply(%x, 3f), 6f)",
    "add(add(%x, 2f), add(%y, 3f)) => add(add(%x, %y), 5f)",
    "add(add(multiply(%x, %x), multiply(multiply(%x, %y), 2f)), multiply(%y, %y))"
    " => multiply(add(%x, %y), add(%x, %y))",
]
KEPT = [
    ("add(%x, 0f)", "float32"),  # of −0
    ("subtract(%x, -0f)", "float32"),
    ("add(add(%x, 2f), 3f)", "float32"),
    ('cast(cast(%x, dtype="float32"), dtype="uint8")', "int8"),
    ('cast(cast(%x, dtype="float64"), dtype="int4")', "int32"),
    ('cast(cast(%x, dtype="float8_e5m2"), dtype="float32")', "float16"),
    ('cast(cast(%x, dtype="float32"), dtype="int32")', "int32"),
    ('cast(cast(%x, dtype="uint32"), dtype="float32")', "int8"),
    ('cast(cast(%x, dtype="float16"), dtype="float32")', "bfloat16"),
    ("clip(clip(%x, a_min=0f), a_min=-1f, a_max=2f)", "float32"),
    ("clip(clip(%x, a_max=1f), a_min=2f)", "float32"),
    ("clip(%x, a_min=-127f)", "int8"),
    ("divide(1f16, sqrt(%x))", "float16"),
    ("add(%x, full(3f, shape=[4, 2, 3]))", "float32"),
    ("add(%x, sum(full(3f16, shape=[683])))", "float16"),  # 2049 is none
    ("add(%x, sum(full(-0f, shape=[3])))", "float32"),
    ("add(%x, sum(full(0.1f, shape=[3])))", "float32"),
    ("add(%x, broadcast_to(%x, shape=[4, 2, 3]))", "float32"),
    ("add(%x, reshape(sum(%x, axis=[1]), newshape=[2, 1]))", "float32"),
]


def sides(equation: Equation, kind: str, shape: tuple[Any, ...]) -> list[Module]:
    """Both as functions of tensors of one type."""
    params = {var: Var(var.name, ty=tensor_type(shape, kind)) for var in equation.variables}
    made = (Function(tuple(params.values()), substitute(side, params)) for side in (equation.lhs, equation.rhs))
    return [Module.from_expr(infer_function(func)) for func in made]


def check(text: str, kind: str, shape: tuple[Any, ...], p: Pass, **options: Any) -> None:
    equation = rule(text)
    known = {var.name: tensor_type(shape, kind) for var in equation.variables}
    assert check_rule(equation, types=known, trials=20, **options).applied
    left, right = sides(equation, kind, shape)
    shared = EliminateCommon()
    assert alpha_equal(shared(p(left)), shared(right))


@pytest.mark.parametrize(("text", "kind"), EXACT)
def test_exact_rules(text: str, kind: str) -> None:
    check(text, kind, (2, 3), Simplify())
    check(text, kind, (), Simplify())


@pytest.mark.parametrize(("text", "kind"), STATIC)
def test_rules_of_literal_shapes(text: str, kind: str) -> None:
    check(text, kind, (2, 3), Simplify())


@pytest.mark.parametrize("text", ROUNDING)
def test_rules_that_round(text: str) -> None:
    check(text, "float32", (2, 3), Reassociate(), rtol=1e-5, finite=True)
    left = sides(rule(text), "float32", (2, 3))[0]
    assert Simplify()(left) is left


@pytest.mark.parametrize(("text", "kind"), KEPT)
def test_what_is_not_the_same_stays(text: str, kind: str) -> None:
    mod = sides(rule(f"{text} => %x"), kind, (2, 3))[0]
    assert Simplify()(mod) is mod


def test_what_is_not_needed_is_evaluated_for_its_effects() -> None:
    text = (
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2,), float32], %r: ref(Tensor[(2,), float32])) {\n'
        "  zeros_like({ ref_write(%r, %x); %x })\n}"
    )
    mod = infer(parse(text, ops=operators()))
    assert Simplify()(mod) is mod


@pytest.mark.parametrize("wide", ["float16", "bfloat16", "float32", "float64", "int8", "int16", "uint8", "int32"])
@pytest.mark.parametrize("narrow", ["bool", "int8", "uint8", "int16", "uint16", "float16", "bfloat16"])
def test_casts_there_and_back(wide: str, narrow: str) -> None:
    """A cast is dropped only where it loses nothing: for all values of the narrow dtype."""
    mod = sides(rule(f'cast(cast(%x, dtype="{wide}"), dtype="{narrow}") => %x'), narrow, (1 << 16,))[0]
    bits = np.arange(1 << 16).astype(np.uint16)
    x = bits > 7 if narrow == "bool" else bits.astype(narrow) if "int" in narrow else bits.view(dtype(narrow).numpy)
    new = Simplify()(mod)
    with np.errstate(all="ignore"):
        got, wanted = (evaluate(m, [x]).astype(np.float64) for m in (new, mod))
    np.testing.assert_array_equal(got, wanted)
