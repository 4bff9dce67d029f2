"""Mixed precision under Relay's names: categories, rules of one's own, results, operators of no list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError
from legato.relay import _op_attrs
from legato.relay.testing.temp_op_attr import TempOpAttr
from legato.relay.transform import ToMixedPrecision, mixed_precision

KEY = "FTVMMixedPrecisionConversionType"


def module(body: relay.Expr) -> relay.IRModule:
    return relay.transform.InferType()(relay.IRModule.from_expr(body))


def dtypes(mod: relay.IRModule) -> dict[str, str]:
    """The dtype of the last call of each operator."""
    found: list[relay.Expr] = []
    relay.analysis.post_order_visit(mod["main"], found.append)
    return {n.op.name: str(n.checked_type.dtype) for n in found if isinstance(n, relay.Call)}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_categories(dtype: str) -> None:
    x, w, b = relay.var("x", shape=(1, 3, 32, 32)), relay.var("w", shape=(5, 3, 3, 3)), relay.var("b", shape=(5,))
    conv = relay.nn.bias_add(relay.nn.conv2d(x, w, out_dtype="float32"), b)
    mod = module(relay.add(relay.nn.softmax(relay.nn.relu(conv)), relay.const(1.0)))
    made = ToMixedPrecision(dtype)(mod)
    narrow = dict.fromkeys(("nn.conv2d", "nn.bias_add", "nn.relu"), dtype)
    assert {k: v for k, v in dtypes(made).items() if k != "cast"} == {
        **narrow,
        "nn.softmax": "float32",
        "add": "float32",
    }
    rng = np.random.default_rng(0)
    args = [rng.normal(size=p.checked_type.static_shape()).astype("float32") for p in mod["main"].params]
    runs = [relay.create_executor("debug", m).evaluate()(*args) for m in (mod, made)]
    np.testing.assert_allclose(*runs, atol=0.05)


def test_what_is_computed_in_float32_before_is_not_narrowed() -> None:
    """Relay's own cases: a sum behind exp, and operators that follow, whose operands are variables and integers."""
    x, y = relay.var("x", shape=(1, 10)), relay.var("y", shape=(1, 10))
    assert dtypes(ToMixedPrecision()(module(relay.exp(x) + y))) == {"exp": "float32", "add": "float32"}
    indices = relay.var("i", shape=(1, 1), dtype="int32") + relay.const(0, "int32")
    taken = dtypes(ToMixedPrecision()(module(relay.take(x, indices, axis=0))))
    assert taken == {"add": "int32", "cast": "float16", "take": "float16"}


def test_results_may_keep_their_dtype() -> None:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    mod = module(relay.nn.dense(x, w))
    for keeps in (False, True):
        with relay.transform.PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": keeps}):
            made = ToMixedPrecision("float16")(mod)
        assert str(made["main"].checked_type.ret_type.dtype) == ("float32" if keeps else "float16")
    with pytest.raises(CompileError, match="is True or False, got 'no'"):
        relay.transform.PassContext(config={"relay.ToMixedPrecision.keep_orig_output_dtype": "no"})


def test_rules_of_ones_own() -> None:
    x, w = relay.var("x", shape=(2, 3)), relay.var("w", shape=(4, 3))
    mod = module(relay.nn.relu(relay.nn.dense(x, w)))
    seen: list[Any] = []

    def wide_sums(call: relay.Call, kind: str) -> list[Any]:
        seen.append((call.op.name, call.attrs.units, kind))
        return [mixed_precision.MIXED_PRECISION_ALWAYS, "float32", kind]

    def never(call: relay.Call, kind: str) -> list[Any]:
        return [mixed_precision.MIXED_PRECISION_NEVER, kind, kind]

    with TempOpAttr("nn.dense", KEY, wide_sums):
        made = ToMixedPrecision("float16")(mod)
        assert dtypes(made) == {"nn.dense": "float32", "cast": "float16", "nn.relu": "float16"}
        with TempOpAttr("nn.relu", KEY, never):
            assert dtypes(ToMixedPrecision("float16")(mod))["nn.relu"] == "float32"
    assert seen[0] == ("nn.dense", None, "float16")

    def registered() -> None:
        relay.op.register_mixed_precision_conversion("nn.dense")(never)
        assert dtypes(ToMixedPrecision()(mod)) == {"nn.dense": "float32", "nn.relu": "float32"}
        relay.op.register_mixed_precision_conversion("nn.dense", lambda call, kind: ["always"])
        with pytest.raises(CompileError, match=r"the rule of nn\.dense for mixed precision gave \['always'\]"):
            ToMixedPrecision()(mod)

    kept = dict(_op_attrs._registered)
    try:
        registered()
    finally:
        _op_attrs._registered.clear()
        _op_attrs._registered.update(kept)
    assert dtypes(ToMixedPrecision()(mod))["nn.dense"] == "float16"


def test_operators_of_no_list() -> None:
    x = relay.var("x", shape=(2, 2))
    mod = module(relay.sin(relay.nn.dense(x, x)))
    with pytest.raises(CompileError, match="operator sin is in no list"):
        ToMixedPrecision("float16", 0)(mod)
    with pytest.warns(UserWarning, match="in float32: sin"):
        assert dtypes(ToMixedPrecision("float16")(mod))["sin"] == "float32"
    assert dtypes(ToMixedPrecision("float16", 2)(mod))["nn.dense"] == "float16"


def test_variables_that_lets_bind() -> None:
    """As in Relay's test of lets: the variables are in 16 bits."""
    v, u, x, w = (relay.var(n, shape=s) for n, s in (("v", (1, 20)), ("u", (1, 20)), ("x", (1, 20)), ("w", (20, 20))))
    inner = relay.Let(u, relay.nn.dense(v + v, w), u + u)
    made = ToMixedPrecision()(module(relay.Function([x, w], relay.Let(v, relay.nn.dense(x, w), inner))))
    assert str(made["main"].checked_type.ret_type) == "Tensor[(1, 20), float16]"
    assert [str(n.checked_type.dtype) for n in (made["main"].body.var, made["main"].body.body.var)] == ["float16"] * 2
