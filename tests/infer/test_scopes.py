"""Each variable is bound once: what is built otherwise is refused before anything looks at it."""

from __future__ import annotations

import pytest

import legato
from legato import relay
from legato.base.errors import TypeCheckError

X, Y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
C = relay.var("c", shape=(), dtype="bool")
PARAM, LET = "a parameter of a function", "a let"
PROGRAMS = {
    "parameters": (relay.Function([X, X], X), PARAM, PARAM),
    "parameter, let": (relay.Function([X], relay.Let(X, relay.exp(X), X)), PARAM, LET),
    "let, let": (relay.Function([X], relay.Let(Y, relay.exp(X), relay.Let(Y, relay.tanh(X), Y))), LET, LET),
    "branches": (
        relay.Function([C, X], relay.If(C, relay.Let(Y, relay.exp(X), Y), relay.Let(Y, relay.tanh(X), Y))), LET, LET
    ),
    "functions": (relay.Function([X], relay.Call(relay.Function([X], relay.exp(X)), [X])), PARAM, PARAM),
    "pattern": (
        relay.Function([X], relay.Match(relay.Tuple([X, X]), [relay.Clause(
            relay.PatternTuple([relay.PatternVar(Y), relay.PatternVar(Y)]), Y)])),
        "a pattern of a match", "a pattern of a match",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_variable_is_bound_once(name: str) -> None:
    """Both places are named. (Some of these compiled to other programs, and the compiler did not end for others.)"""
    func, first, again = PROGRAMS[name]
    module = relay.IRModule.from_expr(func)
    for use in (relay.transform.InferType(), legato.compile):
        with pytest.raises(TypeCheckError, match=r"variable %[xy] is bound twice") as caught:
            use(module)
        assert caught.value.details == (f"first : {first}", f"again : {again}")


def test_a_function_that_is_used_twice_binds_its_variables_once() -> None:
    f = relay.Function([Y], relay.exp(Y))
    module = relay.IRModule.from_expr(relay.Function([X], relay.Call(f, [relay.Call(f, [X])])))
    assert relay.transform.InferType()(module)["main"].ret_type == X.ty
