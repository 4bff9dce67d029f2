"""Mistakes that texts about Relay make: each is refused in one clear line."""

from __future__ import annotations

import pytest

import legato
from legato.base.errors import CompileError, TypeCheckError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.expr import Call, Function, Var
from legato.ir.module import Module
from legato.ir.types import tensor_type
from legato.ops import table

VERSION = '#[version = "0.0.5"]\n'

TRANSPOSED = "nn.dense: the weight (784, 256) is given as (in, out), wanted (out, in)"


def test_a_two_layer_network_with_weights_as_in_out() -> None:
    text = """def @main(%x: Tensor[(1, 784), float32], %w1: Tensor[(784, 256), float32], %b1: Tensor[(256,), float32],
                        %w2: Tensor[(256, 10), float32], %b2: Tensor[(10,), float32]) {
      %0 = nn.dense(%x, %w1, units=256);
      %1 = add(%0, %b1);
      %2 = nn.relu(%1);
      %3 = nn.dense(%2, %w2, units=10);
      add(%3, %b2)
    }"""
    with pytest.raises(TypeCheckError) as caught:
        legato.parse(VERSION + text)
    assert caught.value.message == TRANSPOSED
    assert caught.value.hint == "transpose it, or use matmul"
    assert caught.value.others == ()  # what follows is not blamed


def test_the_same_from_python() -> None:
    b = Builder()
    with pytest.raises(TypeCheckError) as caught:
        b.nn.dense(b.var("x", (1, 784)), b.var("w1", (784, 256)))
    assert caught.value.message == TRANSPOSED
    x, w = Var("x", ty=tensor_type((1, 784))), Var("w1", ty=tensor_type((784, 256)))
    dense = table()["nn.dense"]
    assert dense.attrs is not None
    with pytest.raises(TypeCheckError) as caught:
        infer(Module.from_expr(Function((x, w), Call(dense, (x, w), dense.attrs()))))
    assert caught.value.message == TRANSPOSED


def test_a_square_weight_is_what_it_says() -> None:
    """(out, in) and (in, out) cannot be told apart, and symbolic extents are checked when the program runs."""
    for shape in ("(8, 8)", "(m, k)"):
        legato.parse(
            VERSION + f"def @main(%x: Tensor[(1, 8), float32], %w: Tensor[{shape}, float32]) {{ nn.dense(%x, %w) }}"
        )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        # weights and biases that are no parameters
        (
            "def @main(%x: Tensor[(1, 10), float32], %h: Tensor[(1, 20), float32]) { add(nn.dense(%x, %W), %h) }",
            "unknown variable `%W`",
            None,
        ),
        # dense has no bias
        (
            "def @main(%x: Tensor[(1, 10), float32], %W, %b) { nn.dense(%x, %W, %b) }",
            "nn.dense: got 3 arguments, wanted 2: data, weight",
            None,
        ),
        # statements without a semicolon
        (
            "def @main(%x: Tensor[(1, 10), float32]) { %1 = tanh(%x) %1 }",
            "expected `;`, got `%1`",
            "`;` ends a let, and every expression of a block but the last",
        ),
        # a let of a graph binding
        (
            "def @main(%x: Tensor[(1, 10), float32]) { let %0 = tanh(%x); %0 }",
            "`%0` names a graph binding, not a variable",
            'variables have a letter in their name, or quotes: %"0"',
        ),
        # a dim that nothing binds
        (
            "def @main(%x: Tensor[(n, 784), float32]) { (reshape(%x, newshape=[n, 28, 28]), shape[b, 10]) }",
            "dim b is not bound here",
            "a parameter's type or match_cast binds dims",
        ),
    ],
)
def test_one_clear_line(text: str, message: str, hint: str | None) -> None:
    with pytest.raises(CompileError) as caught:
        legato.parse(VERSION + text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_name_that_python_never_bound() -> None:
    x = Var("x", ty=tensor_type((2,)))
    with pytest.raises(TypeCheckError) as caught:
        infer(Module.from_expr(Function((x,), Call(table()["add"], (x, Var("params"))))))
    assert caught.value.message == "%params is not bound here"
