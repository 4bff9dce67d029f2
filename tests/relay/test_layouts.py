"""Layouts that a user's rules ask for: what becomes of programs, as text, and that they mean the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError, TypeCheckError
from legato.relay.op.op import register_alter_op_layout
from legato.relay.testing.temp_op_attr import TempOpAttr
from legato.relay.transform import AlterOpLayout, ConvertLayout, InferCorrectLayoutOutput

ALTER, CONVERT, INFER = "FTVMAlterOpLayout", "FTVMConvertOpLayout", "FInferCorrectLayout"


def var(name: str, *shape: int) -> Any:
    return relay.var(name, shape=shape)


def function(params: Sequence[Any], body: Any) -> Any:
    return relay.testing.run_infer_type(relay.Function(params, body))  # type: ignore[call-arg]


def run(func: Any, opt_pass: Any) -> Any:
    with relay.transform.PassContext(opt_level=3):
        return relay.testing.run_opt_pass(func, opt_pass)


def check(new: Any, old: Any, expected: Any = None) -> None:
    """`new` is as expected, and means what `old` means."""
    if expected is not None:
        relay.assert_structural_equal(new, expected)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, p.checked_type.concrete_shape).astype("float32") for p in old.params]
    got, want = (relay.create_executor("debug", relay.IRModule.from_expr(f)).evaluate()(*arrays) for f in (new, old))
    for g, w in zip(*(v if isinstance(v, list | tuple) else [v] for v in (got, want)), strict=True):
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w))


def blocks(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> Any:
    """Doubled weights in blocks of 4."""
    data, weight = inputs
    new = {**attrs, "data_layout": "NCHW4c", "kernel_layout": "OIHW4o"}
    return relay.nn.conv2d(data, relay.multiply(weight, relay.const(2.0)), **new)


def residual() -> tuple[Any, list[Any]]:
    x, w, v, b = var("x", 1, 8, 6, 6), var("w", 8, 8, 3, 3), var("v", 8, 8, 1, 1), var("b", 8, 1, 1)
    y = relay.nn.relu(relay.add(relay.nn.conv2d(x, w, padding=(1, 1)), b))
    y = relay.add(y, relay.nn.conv2d(x, v))
    y = relay.nn.max_pool2d(relay.concatenate([y, x], axis=1), (2, 2))
    return relay.nn.batch_flatten(y), [x, w, v, b]


def test_altered_to_blocks() -> None:
    body, params = residual()
    with TempOpAttr("nn.conv2d", ALTER, blocks):
        new = run(relay.Function(params, body), AlterOpLayout())  # type: ignore[call-arg]
    x, w, v, b = params
    given = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4o"}
    kernels = [relay.layout_transform(relay.multiply(p, relay.const(2.0)), "OIHW", "OIHW4o") for p in (w, v)]
    data = relay.layout_transform(x, "NCHW", "NCHW4c")
    bias = relay.layout_transform(relay.expand_dims(b, 0), "NCHW", "NCHW4c")
    y = relay.nn.relu(relay.add(relay.nn.conv2d(data, kernels[0], padding=(1, 1), **given), bias))
    y = relay.add(y, relay.nn.conv2d(data, kernels[1], **given))
    y = relay.nn.max_pool2d(relay.concatenate([y, data], axis=1), (2, 2), layout="NCHW4c")
    want = function(params, relay.nn.batch_flatten(relay.layout_transform(y, "NCHW4c", "NCHW")))
    relay.assert_structural_equal(new, want)
    twice = relay.bind(body, {w: relay.multiply(w, relay.const(2.0)), v: relay.multiply(v, relay.const(2.0))})
    check(new, function(params, twice))


def test_a_rule_may_leave_or_repeat_a_call() -> None:
    x, w = var("x", 1, 4, 5, 5), var("w", 4, 4, 1, 1)
    old = function([x, w], relay.nn.relu(relay.nn.conv2d(x, w)))
    rules: list[Any] = [
        lambda *given: None,
        lambda attrs, inputs, *more: relay.nn.conv2d(*inputs, **attrs),
        lambda attrs, inputs, *more: relay.add(relay.nn.conv2d(*inputs, **attrs), relay.const(0.0)),
    ]
    for n, rule in enumerate(rules):
        with TempOpAttr("nn.conv2d", ALTER, rule):
            new = run(old, AlterOpLayout())
        check(new, old, old if n < 2 else None)


def test_a_rule_sees_constants_and_the_fields_of_tuples() -> None:
    x = var("x", 1, 2)
    seen: list[Any] = []

    def rule(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> Any:
        seen.append((inputs, [str(t) for t in tinfos], str(out_type)))
        return relay.concatenate(inputs[0], axis=attrs.axis)

    constant = relay.const(np.ones((1, 3), "float32"))
    old = function([x], relay.concatenate([relay.exp(x), constant], axis=1))
    with TempOpAttr("concatenate", ALTER, rule):
        run(old, AlterOpLayout())
    assert seen[0][1:] == (
        ["Tensor[(1, 2), float32]", "Tensor[(1, 3), float32]"], "Tensor[(1, 5), float32]")  # fmt: skip
    with TempOpAttr("add", ALTER, lambda attrs, inputs, *more: seen.append(inputs)):
        run(function([x], relay.add(x, relay.const(1.0))), AlterOpLayout())
    assert isinstance(seen[-1][1], relay.Constant)


def test_a_rule_may_bring_operands_there_itself() -> None:
    def rule(attrs: Any, inputs: Any, *more: Any) -> Any:
        weight = relay.layout_transform(inputs[1], "OIHW", "OIHW4o")
        return relay.nn.conv2d(inputs[0], weight, **{**attrs, "kernel_layout": "OIHW4o"})

    x, w = var("x", 1, 4, 5, 5), var("w", 4, 4, 1, 1)
    old = function([x, w], relay.nn.conv2d(x, w))
    with TempOpAttr("nn.conv2d", ALTER, rule):
        new = run(old, AlterOpLayout())
    check(new, old, function([x, w], relay.nn.conv2d(x, relay.layout_transform(w, "OIHW", "OIHW4o"),
                                                      kernel_layout="OIHW4o")))  # fmt: skip


def wide(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> Any:
    return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": "NCHW16c"})


def test_weights_of_products() -> None:
    def rule(attrs: Any, inputs: Any, *more: Any) -> Any:
        return relay.nn.contrib_dense_pack(*inputs, weight_layout="NC4n", **attrs)

    x, w = var("x", 2, 5), var("w", 8, 5)
    old = function([x, w], relay.nn.relu(relay.nn.dense(x, w)))
    with TempOpAttr("nn.dense", ALTER, rule):
        new = run(old, AlterOpLayout())
    y = relay.nn.contrib_dense_pack(x, relay.layout_transform(w, "NC", "NC4n"), "NC4n")
    check(new, old, function([x, w], relay.nn.relu(y)))


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (wide, "the rule for nn.conv2d asks for layouts that do not fit"),
        (lambda attrs, inputs, *more: relay.exp(inputs[0]), "the rule for nn.conv2d changes the type of the result"),
        (lambda *given: 3, "FTVMAlterOpLayout of nn.conv2d gave a int, not an expression"),
    ],
)
def test_rules_that_do_not_fit(rule: Callable[..., Any], message: str) -> None:
    x, w = var("x", 1, 4, 5, 5), var("w", 4, 4, 3, 3)
    with TempOpAttr("nn.conv2d", ALTER, rule), pytest.raises(TypeCheckError) as caught:
        run(function([x, w], relay.nn.conv2d(x, w)), AlterOpLayout())
    assert caught.value.message == message


def test_registered_rules_are_hidden_by_contexts() -> None:
    register_alter_op_layout("nn.upsampling3d", lambda attrs, inputs, *more: relay.negative(relay.negative(inputs[0])))
    old = function([x := var("x", 1, 1, 2, 2, 2)], relay.nn.upsampling3d(x, 1, 1, 1))
    assert "negative" in str(run(old, AlterOpLayout()))
    with TempOpAttr("nn.upsampling3d", ALTER, None):
        assert run(old, AlterOpLayout()) is not None
        relay.assert_structural_equal(run(old, AlterOpLayout()), old)


def test_converted_by_a_rule_of_the_users() -> None:
    seen: list[Any] = []

    def rule(attrs: Any, inputs: Any, tinfos: Any, desired: Any) -> Any:
        seen.append(desired)
        return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": desired[0], "kernel_layout": "HWIO"})

    x, w = var("x", 1, 4, 5, 5), var("w", 4, 4, 1, 1)
    old = function([x, w], relay.nn.avg_pool2d(relay.nn.conv2d(x, w)))
    with TempOpAttr("nn.conv2d", CONVERT, rule):
        new = run(old, ConvertLayout({"nn.conv2d": ["NHWC", "any"], "nn.avg_pool2d": ["NCHW"]}))
    assert seen == [["NHWC", "any"]]
    kernel = relay.layout_transform(w, "OIHW", "HWIO")
    y = relay.nn.conv2d(relay.layout_transform(x, "NCHW", "NHWC"), kernel, data_layout="NHWC", kernel_layout="HWIO")
    y = relay.nn.avg_pool2d(relay.layout_transform(y, "NHWC", "NCHW"), out_layout="NCHW")
    check(new, old, function([x, w], y))


def test_how_an_operator_follows() -> None:
    seen: list[Any] = []

    def follows(attrs: Any, new: Any, old: Any, types: Any) -> Any:
        seen.append(([str(v) for v in new], [str(v) for v in old], [str(t) for t in types]))
        return InferCorrectLayoutOutput([new[0]], [new[0]], attrs)

    x, w = var("x", 1, 4, 5, 5), var("w", 4, 4, 1, 1)
    old = function([x, w], relay.cumsum(relay.nn.relu(relay.nn.conv2d(x, w)), axis=0))
    convert = ConvertLayout({"nn.conv2d": ["NHWC", "default"]})
    with TempOpAttr("nn.relu", INFER, follows), TempOpAttr("cumsum", INFER, follows):
        new = run(old, convert)
    assert seen == [(["NHWC"], ["NCHW"], ["Tensor[(1, 4, 5, 5), float32]"])] * 2
    assert "layout_transform" in str(new.body)
    check(new, old)
    with TempOpAttr("nn.relu", INFER, lambda *given: None):  # a barrier
        check(run(old, convert), old)
    with TempOpAttr("nn.relu", INFER, lambda *given: 3), pytest.raises(TypeCheckError, match="gave a int"):
        run(old, convert)


def test_what_cannot_be_converted() -> None:
    with pytest.raises(CompileError, match=r"'nn\.dense' has no layout to convert"):
        ConvertLayout({"nn.dense": ["NHWC"]})
    with pytest.raises(CompileError, match="cannot be 'default'"):
        ConvertLayout({"nn.conv2d": ["default", "default"]})


def test_layouts_as_values() -> None:
    found = relay.tir.layout("NCHW16c")
    assert (str(found), len(found), found[4], "c" in found, "d" in found) == ("NCHW16c", 5, "c", True, False)
    assert (found.index_of("c"), found.index_of("D"), found.factor_of("C"), found.factor_of("H")) == (4, -1, 16, -1)
    assert found.defined()
    assert not relay.tir.layout("").defined()
    with pytest.raises(TypeCheckError, match="is not a layout"):
        relay.tir.layout("NCHW16")
