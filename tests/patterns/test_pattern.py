"""Each kind of pattern: what it matches, and what it does not."""

from __future__ import annotations

import re

import pytest

from legato import relay
from legato.arith.expr import fresh as dim
from legato.base.errors import CompileError
from legato.ir.expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem, Var, constant
from legato.ir.types import TupleType, scalar_type, tensor_type
from legato.ops import table
from legato.patterns import (
    Pattern,
    dominates,
    has_attr,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    match,
    wildcard,
)
from legato.patterns.pattern import FunctionPattern

n = dim("n")
x, y = Var("x", ty=tensor_type((n, 4))), Var("y", ty=tensor_type((n, 4)))
one = constant(1.0)
flag = Var("flag", ty=scalar_type("bool"))


def call(name: str, *args: Expr, **attrs: object) -> Expr:
    made: Expr = getattr(relay, name)(*args, **attrs)
    return made


MATCHES = {
    "anything": (wildcard(), x),
    "a variable": (is_var(), x),
    "a variable by name": (is_var("x"), x),
    "a constant": (is_constant(), one),
    "an operator": (is_op("exp"), table()["exp"]),
    "an expression": (is_expr(call("exp", x)), call("exp", x)),
    "a call": (is_op("exp")(is_var()), call("exp", x)),
    "a call of anything": (wildcard()(wildcard()), call("exp", x)),
    "a call with any arguments": (is_op("subtract")(None), call("subtract", x, y)),
    "a sum in the other order": (is_op("add")(is_constant(), is_var()), call("add", x, one)),
    "a product in the other order": (is_constant() * is_var(), call("multiply", x, one)),
    "a difference": (is_var("x") - is_var("y"), call("subtract", x, y)),
    "a quotient": (is_var("x") / is_var("y"), call("divide", x, y)),
    "an expression as a part": (is_op("add")(x, y), call("add", x, y)),
    "a function": (FunctionPattern((is_var(),), is_op("exp")(wildcard())), Function((x,), call("exp", x))),
    "a function of anything": (FunctionPattern(None, wildcard()), Function((x, y), x)),
    "a let": (is_let(is_var("y"), is_op("exp")(wildcard()), is_var("y")), Let(y, call("exp", x), y)),
    "an if": (is_if(is_var("flag"), is_var("x"), is_var("y")), If(flag, x, y)),
    "a tuple": (is_tuple([is_var(), is_constant()]), Tuple((x, one))),
    "a tuple of anything": (is_tuple(), Tuple((x, one))),
    "a field": (is_tuple_get_item(is_var(), 1), TupleGetItem(x, 1)),
    "any field": (is_tuple_get_item(is_var()), TupleGetItem(x, 1)),
    "the left": (is_var() | is_constant(), x),
    "the right": (is_var() | is_constant(), one),
    "an option that is taken": (is_op("exp")(is_var()).optional(is_op("tanh")), call("tanh", call("exp", x))),
    "an option that is not": (is_op("exp")(is_var()).optional(is_op("tanh")), call("exp", x)),
    "an attribute": (wildcard()(None).has_attr({"axis": -1}), relay.nn.softmax(x)),
    "attributes as lists": (has_attr({"newshape": [-1, 2]}), call("reshape", x, newshape=[-1, 2])),
    "an attribute that is a dtype": (has_attr({"dtype": "int32"}), call("cast", x, dtype="int32")),
    "a function's attribute": (has_attr({"Composite": "f"}), Function((), one, attrs={"Composite": "f"})),
    "a class of operators": (has_attr({"TOpPattern": 0})(None), call("exp", x)),
    "a type": (has_type(tensor_type((n, 4))), x),
    "a type of equal dims": (has_type(tensor_type((n + n - n, 4))), x),
    "a tuple's type": (has_type(TupleType((tensor_type((n, 4)), scalar_type("float32")))), relay.Tuple([x, one])),
    "a dtype": (has_dtype("float32"), x),
    "a shape": (has_shape((n, 4)), call("exp", x)),
    "a shape of equal dims": (has_shape((2 * n - n, 4)), call("exp", x)),
    "a shape that has to be inferred": (has_shape((n, 4)), Call(table()["exp"], (x,))),
    "two conditions": (is_var().has_dtype("float32").has_shape((n, 4)), x),
}

MISSES = {
    "another name": (is_var("y"), x),
    "a global": (is_var(), relay.GlobalVar("x")),
    "no constant": (is_constant(), x),
    "another operator": (is_op("exp")(wildcard()), call("tanh", x)),
    "another expression": (is_expr(one), constant(2.0)),
    "an expression of another dtype": (is_expr(one), constant(1)),
    "more arguments": (wildcard()(wildcard()), call("add", x, y)),
    "a difference in the other order": (is_constant() - is_var(), call("subtract", x, one)),
    "any callee in the other order": (wildcard()(is_constant(), is_var()), call("add", x, one)),
    "more parameters": (FunctionPattern((is_var(),), wildcard()), Function((x, y), x)),
    "another field": (is_tuple_get_item(wildcard(), 0), TupleGetItem(x, 1)),
    "fewer fields": (is_tuple([wildcard()]), Tuple((x, one))),
    "no alternative": (is_var() | is_constant(), call("exp", x)),
    "another value": (has_attr({"axis": 0}), relay.nn.softmax(x)),
    "no such attribute": (has_attr({"axes": 0}), relay.nn.softmax(x)),
    "another class of operators": (has_attr({"TOpPattern": 1})(None), call("exp", x)),
    "another dtype": (has_dtype("int32"), x),
    "a dim that may be equal": (has_shape((5, 4)), x),
    "another dim": (has_shape((dim("m"), 4)), x),
    "another rank": (has_shape((4,)), x),
    "another type": (has_type(tensor_type((n, 4), "float16")), x),
    "the type of a tuple": (has_type(tensor_type((n, 4))), relay.Tuple([x])),
}


@pytest.mark.parametrize("name", MATCHES)
def test_matches(name: str) -> None:
    pattern, e = MATCHES[name]
    found = match(pattern, e)
    assert found is not None
    assert found[pattern] is e is found.root


@pytest.mark.parametrize("name", MISSES)
def test_misses(name: str) -> None:
    pattern, e = MISSES[name]
    assert match(pattern, e) is None


def test_one_pattern_is_one_expression() -> None:
    w = wildcard()
    e = call("exp", x)
    assert match(w + w, call("add", e, e)) is not None
    assert match(w + w, call("add", e, call("exp", x))) is None
    assert match(w + wildcard(), call("add", e, call("exp", x))) is not None


def test_what_parts_stand_for() -> None:
    a, b = wildcard(), is_constant()
    option = is_op("tanh")(a)
    found = match((a | option) * b, call("multiply", one, x))
    assert found is not None
    assert (found[a], found[b]) == (x, one)
    assert option not in found
    with pytest.raises(CompileError, match=re.escape("<CallPattern> stands for nothing in this match")):
        found[option]


def test_an_alternative_is_taken_back() -> None:
    """What is found first may not go with what comes later."""
    a = wildcard()
    found = match(is_tuple([a | is_op("exp")(a), a]), Tuple((call("exp", x), x)))
    assert found is not None
    assert found[a] is x


# ---------------------------------------------------------------------- dominators

conv = relay.nn.conv2d(relay.var("data", shape=(1, 3, 8, 8)), relay.var("w", shape=(3, 3, 1, 1)))
other = relay.nn.conv2d(relay.var("data2", shape=(1, 3, 8, 8)), relay.var("w2", shape=(3, 3, 1, 1)))
relu = relay.nn.relu
is_conv, elementwise = is_op("nn.conv2d")(wildcard(), wildcard()), has_attr({"TOpPattern": 0})(wildcard())
diamond = dominates(is_conv, elementwise, is_op("add")(wildcard(), wildcard()))
product = relu(relay.multiply(conv, conv))

DIAMONDS = {
    "both sides": (relu(relu(conv)) + relay.tanh(conv), True),
    "nothing between": (conv + conv, True),
    "one side": (conv + relu(conv), True),
    "a constant beside": (relu(conv) + relay.const(1.0), True),
    "two parents": (relu(conv) + relay.tanh(other), False),
    "not from the parent": (relu(conv) + relu(relay.var("z", shape=(1, 3, 8, 8))), False),
    "no parent": (relu(product) + product, False),
    "not the path": (product + relu(conv), False),
}  # fmt: skip


@pytest.mark.parametrize("name", DIAMONDS)
def test_diamonds(name: str) -> None:
    e, matches = DIAMONDS[name]
    found = match(diamond, e)
    assert (found is not None) is matches
    assert found is None or found[is_conv] is conv


def test_the_path_is_many_expressions() -> None:
    found = match(diamond, relu(relu(conv)) + relay.tanh(conv))
    assert found is not None
    assert len(found.found[elementwise]) == 3


def test_what_is_used_elsewhere_is_not_dominated() -> None:
    inner = relu(conv) + relay.tanh(conv)
    whole: Pattern = is_tuple([diamond, wildcard()])
    assert match(whole, relay.Tuple([inner, conv])) is None
    assert match(whole, relay.Tuple([inner, inner])) is not None


def test_bias_beside_the_path() -> None:
    """As a convolution, elementwise and broadcast operators, then one that moves elements."""
    path = has_attr({"TOpPattern": 0})(None) | has_attr({"TOpPattern": 1})(None)
    pattern = has_attr({"TOpPattern": 2})(wildcard()).dominates(is_conv, path)
    biased = relu(relay.nn.bias_add(conv, relay.var("bias", shape=(3,))))
    assert match(pattern, relay.reshape(biased, newshape=[-1, 2])) is not None


# ---------------------------------------------------------------------- errors


def test_errors() -> None:
    with pytest.raises(CompileError, match=r"no operator is called 'ad'\n  hint: did you mean add"):
        is_op("ad")
    with pytest.raises(CompileError, match=r"no pattern: 1\.0\n  hint: patterns are made of patterns and expressions"):
        wildcard() + 1.0
