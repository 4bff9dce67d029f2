"""The exercises of passes that change layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from legato import relay
from tests.relay.exercises import exercise, x

CONV_NHWC = {"data_layout": "NHWC", "kernel_layout": "HWIO"}


def optimized(func: Any, opt_pass: Any) -> Any:
    with relay.transform.PassContext(opt_level=3):
        return relay.testing.run_opt_pass(func, opt_pass)


@exercise("relay.transform.ConvertLayout")
def _(found: Any) -> None:
    data, weight = x(1, 8, 6, 6), x(4, 8, 3, 3, name="w")
    func = relay.Function([data, weight], relay.nn.relu(relay.nn.conv2d(data, weight)))
    new = optimized(func, found({"nn.conv2d": ["NHWC", "default"]}))
    rows, kernels = relay.layout_transform(data, "NCHW", "NHWC"), relay.layout_transform(weight, "OIHW", "HWIO")
    y = relay.layout_transform(relay.nn.relu(relay.nn.conv2d(rows, kernels, **CONV_NHWC)), "NHWC", "NCHW")
    expected = relay.testing.run_infer_type(relay.Function([data, weight], y))
    relay.assert_structural_equal(new, expected)


@exercise("relay.transform.LayoutConfig")
def _(found: Any) -> None:
    data, weight = x(1, 4, 6, 6), x(4, 4, 1, 1, name="w")
    func = relay.Function([data, weight], relay.nn.conv2d(relay.nn.conv2d(data, weight), weight))
    convert = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})
    with found(skip_layers=[0]) as config:
        assert found.current is config
        new = optimized(func, convert)
    assert found.current is None
    assert str(new).count('data_layout="NHWC"') == 1
    assert str(optimized(func, convert)).count('data_layout="NHWC"') == 2


@exercise(
    "relay.op.op.register_alter_op_layout",
    "relay.op.op.register_convert_op_layout",
    "relay.op.op.register_infer_correct_layout",
)
def _(found: Any) -> None:
    @found("nn.space_to_depth", level=1)
    def low(*given: Any) -> None:
        raise AssertionError

    calls = []

    @found("nn.space_to_depth")
    def rule(*given: Any) -> None:
        calls.append(given)

    func = relay.Function([v := x(1, 4, 6, 6)], relay.nn.space_to_depth(relay.nn.max_pool2d(v), 2))
    passes = {
        relay.op.op.register_alter_op_layout: relay.transform.AlterOpLayout(),
        relay.op.op.register_convert_op_layout: relay.transform.ConvertLayout({"nn.space_to_depth": ["NHWC"]}),
        relay.op.op.register_infer_correct_layout: relay.transform.ConvertLayout({"nn.max_pool2d": ["NHWC"]}),
    }
    new = optimized(func, passes[found])
    assert [len(given) for given in calls] == [4]
    assert (' layout="NHWC"' in str(new)) == (found is relay.op.op.register_infer_correct_layout)


def channels_last(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> Any:
    """A rule: a convolution is one of another layout between transposes."""
    assert [len(t.shape) for t in tinfos] == [4, 4]
    assert attrs.data_layout == "NCHW"
    assert len(out_type.shape) == 4
    data, weight = relay.transpose(inputs[0], (0, 2, 3, 1)), relay.transpose(inputs[1], (2, 3, 1, 0))
    new = {**attrs, "data_layout": "NHWC", "kernel_layout": "HWIO"}
    return relay.transpose(relay.nn.conv2d(data, weight, **new), (0, 3, 1, 2))


@exercise("relay.transform.AlterOpLayout")
def _(found: Any) -> None:
    data, weight = x(1, 8, 6, 6), x(4, 8, 3, 3, name="w")
    func = relay.Function([data, weight], relay.nn.relu(relay.nn.conv2d(data, weight)))
    with (
        relay.testing.temp_op_attr.TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", channels_last),
        relay.transform.PassContext(opt_level=3),
    ):
        new = relay.testing.run_opt_pass(func, found())
    assert relay.analysis.list_op_freqs(new) == {"transpose": 3, "nn.conv2d": 1, "nn.relu": 1}
    assert str(new.ret_type) == "Tensor[(1, 4, 4, 4), float32]"
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.checked_type.concrete_shape, dtype="float32") for p in func.params]
    run = [relay.create_executor("debug", relay.IRModule.from_expr(f)).evaluate()(*arrays) for f in (func, new)]
    np.testing.assert_allclose(*run, rtol=1e-5, atol=1e-5)
