"""Rules are checked against the interpreter: true ones pass, and each kind of false one is found out."""

from __future__ import annotations

import pytest

import legato.ops  # noqa: F401  # gives operators their names
from legato import relay
from legato.base.errors import CompileError
from legato.ir.types import tensor_type
from legato.patterns import Callback, is_op, rule, wildcard
from legato.testing import check_rule

TRUE = [
    "multiply(%x, 1f) => %x",
    "add(%x, %y) => add(%y, %x)",
    "negative(negative(%x)) => %x",
    "subtract(%x, %y) => add(%x, negative(%y))",
    "(%x, %y).1 => %y",
    "if (%c) { %x } else { %x } => %x",
    "logical_not(logical_and(%x, %y)) => logical_or(logical_not(%x), logical_not(%y))",
    "add(add(%x, 1), 2) => add(%x, 3)",
    "transpose(transpose(%x)) => %x",
]

FALSE = {
    "negative zero": "add(%x, 0f) => %x",
    "infinity": "multiply(%x, 0f) => multiply(0f, zeros_like(%x))",
    "rounding": "add(add(%x, %y), %z) => add(%x, add(%y, %z))",
    "the other operand": "subtract(%x, %y) => subtract(%y, %x)",
    "overflow": "divide(multiply(%x, 3), 3) => add(%x, 1)",
    "the other branch": "if (%c) { %x } else { %y } => %x",
}


@pytest.mark.parametrize("text", TRUE)
def test_true_rules(text: str) -> None:
    found = check_rule(rule(text), trials=100)
    assert 0 < found.applied <= found.tried == 100


@pytest.mark.parametrize("name", FALSE)
def test_false_rules(name: str) -> None:
    text = FALSE[name]
    with pytest.raises(CompileError) as caught:
        check_rule(rule(text))
    assert caught.value.message == f"{text}: the sides differ"
    assert caught.value.details[-2].startswith("left  : ")


def test_symbolic_dims_and_broadcasting_are_among_the_operands() -> None:
    """A rule that is wrong where a dim is 1 or 0 only is found out."""
    with pytest.raises(CompileError, match="the sides differ"):
        check_rule(rule("mean(%x) => max(%x)"), finite=True)


def test_allowed_errors() -> None:
    reorder = rule("add(add(%x, %y), %z) => add(%x, add(%y, %z))")
    assert check_rule(reorder, rtol=1e-5, finite=True).applied


def test_types_and_examples() -> None:
    image = {"x": tensor_type((1, 3, 8, 8)), "w": tensor_type((4, 3, 3, 3))}
    assert check_rule(rule("nn.relu(nn.conv2d(%x, %w)) => maximum(nn.conv2d(%x, %w), 0f)"), types=image, trials=3)
    part = wildcard()
    twice = Callback(is_op("add")(part, part), lambda old, now, match: match[part] * relay.const(2.0), name="twice")
    x = relay.var("x", shape=(2, 3))
    assert check_rule(twice, x + x).applied
    with pytest.raises(CompileError, match="twice has no left side to check it on"):
        check_rule(twice)


def test_bfloat16() -> None:
    types = {"x": tensor_type((3,), "bfloat16")}
    assert check_rule(rule("negative(negative(%x)) => %x"), types=types, trials=10).applied == 10
    with pytest.raises(CompileError, match="the sides differ"):
        check_rule(rule("negative(%x) => %x"), types=types, trials=10)


def test_a_rule_that_never_applies() -> None:
    with pytest.raises(CompileError, match="does not apply to operands of any of 20 random types"):
        check_rule(rule("nn.conv2d(%x, %w) => nn.conv2d(%w, %x)"), trials=20)
