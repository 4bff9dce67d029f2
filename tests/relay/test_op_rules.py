"""Rules for calls that hold for a time, and what is said of wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from legato import relay
from legato.base.errors import CompileError, TypeCheckError
from legato.relay.testing.temp_op_attr import TempOpAttr

X: Any = relay.var("x", shape=(2, 3))


def module(body: Any) -> Any:
    return relay.IRModule.from_expr(relay.Function([X], body))  # type: ignore[call-arg]


EXP = module(relay.exp(relay.exp(X)))


def test_operands_are_rewritten_before_their_users() -> None:
    seen = []

    def rule(attrs: Any, inputs: Any, types: Any) -> Any:
        seen.append(str(inputs[0]))
        return relay.tanh(inputs[0])

    with TempOpAttr("exp", "FTVMLegalize", rule):
        new = relay.transform.Legalize()(EXP)
    assert relay.analysis.list_op_freqs(new) == {"tanh": 2}
    assert len(seen) == 2
    assert "tanh" in seen[1]


def test_deep_programs() -> None:
    body = X
    for _ in range(5000):
        body = relay.exp(body)
    with TempOpAttr("exp", "FTVMLegalize", lambda attrs, inputs, types: relay.tanh(inputs[0])):
        new = relay.transform.Legalize()(module(body))
    assert relay.analysis.list_op_freqs(new) == {"tanh": 5000}


def test_inner_contexts_add_and_end() -> None:
    def swap(name: str) -> Any:
        return lambda attrs, inputs, types: getattr(relay, name)(inputs[0])

    def freqs() -> dict[str, int]:
        return relay.analysis.list_op_freqs(relay.transform.Legalize()(EXP))

    with TempOpAttr("exp", "FTVMLegalize", swap("tanh")):
        with TempOpAttr("tanh", "FTVMLegalize", swap("erf")), TempOpAttr("exp", "FTVMLegalize", swap("sin")):
            assert freqs() == {"sin": 2}
        assert freqs() == {"tanh": 2}
    assert freqs() == {"exp": 2}


def legalized(rule: Any) -> None:
    with TempOpAttr("exp", "FTVMLegalize", rule):
        relay.transform.Legalize()(EXP)


def altered(rule: Any) -> None:
    with TempOpAttr("exp", "FTVMAlterOpLayout", rule):
        relay.transform.AlterOpLayout()(EXP)


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (
            lambda: TempOpAttr("exp", "TOpPattern", None),
            CompileError,
            "error: TOpPattern of an operator cannot be set\n"
            "  hint: FTVMLegalize, FTVMAlterOpLayout, FTVMConvertOpLayout, FInferCorrectLayout and"
            " FTVMMixedPrecisionConversionType can; "
            "all else is in the operator's record",
        ),
        (
            lambda: relay.transform.Legalize("FTVMQnnLegalize"),
            CompileError,
            "error: there are no rules called FTVMQnnLegalize\n  hint: write FTVMLegalize",
        ),
        (
            lambda: legalized(lambda attrs, inputs, types: 3),
            TypeCheckError,
            "type error: FTVMLegalize of exp gave a int, not an expression",
        ),
        (
            lambda: altered(lambda attrs, inputs, tinfos, out: relay.transpose(inputs[0], (1, 0))),
            TypeCheckError,
            "type error: the rule for exp changes the type of the result\n"
            "  got:    Tensor[(3, 2), float32]\n"
            "  wanted: Tensor[(2, 3), float32]\n"
            "  hint: say another layout by the attributes of an operator that has layouts",
        ),
    ],
)
def test_errors(wrong: Callable[[], Any], kind: type[CompileError], message: str) -> None:
    with pytest.raises(kind) as caught:
        wrong()
    assert str(caught.value) == message


def test_unknown_operators_and_attributes() -> None:
    with pytest.raises(TypeCheckError, match=r"no operator is called 'no\.such'"):
        TempOpAttr("no.such", "FTVMLegalize", None)
    with pytest.raises(AttributeError, match="there is no attribute axis; there are none"):
        legalized(lambda attrs, inputs, types: attrs.axis)
