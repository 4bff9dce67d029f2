"""The quantised dialect by Relay's names: what its users wrote, by hand-made numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import TypeCheckError
from legato.interp import evaluate
from legato.ir.expr import Expr

Array = np.ndarray[Any, Any]


def _scale(value: float) -> Expr:
    return relay.const(value, "float32")


def _zero(value: int) -> Expr:
    return relay.const(value, "int32")


def _run(body: Expr, **given: Array) -> Array:
    """What a body gives, which is the same as integer arithmetic."""
    mod = relay.IRModule.from_expr(body)
    params = [p.name_hint for p in mod["main"].params]
    args = [given[name] for name in params]
    found = evaluate(relay.transform.InferType()(mod).module, args)
    plain = relay.qnn.transform.CanonicalizeOps()(relay.qnn.transform.Legalize()(relay.transform.InferType()(mod)))
    assert "qnn." not in str(plain)
    np.testing.assert_array_equal(evaluate(plain.module, args), found)
    return found  # type: ignore[no-any-return]


def test_quantize_and_dequantize() -> None:
    numbers = np.array([-63.5, -63, -62.5, -62, -61.5, 62, 62.5, 63, 63.5, 64], np.float32)
    x = relay.var("x", shape=numbers.shape)
    q = relay.qnn.op.quantize(x, _scale(0.5), _zero(127), out_dtype="uint8")
    codes = _run(q, x=numbers)
    np.testing.assert_array_equal(codes, [0, 1, 2, 3, 4, 251, 252, 253, 254, 255])
    back = _run(relay.qnn.op.dequantize(q, _scale(0.5), _zero(127)), x=numbers)
    np.testing.assert_array_equal(back, numbers)


def test_requantize_rounds_as_the_configuration_says() -> None:
    x, values = relay.var("x", shape=(6,), dtype="int32"), np.array([-5, -3, -1, 1, 3, 5], np.int32)
    scales = _scale(0.5), _zero(0), _scale(1.0), _zero(0)
    np.testing.assert_array_equal(_run(relay.qnn.op.requantize(x, *scales), x=values), [-2, -1, 0, 1, 2, 3])
    with relay.qnn.requantize_config(rounding="TONEAREST", compute_dtype="float32"):
        inside = relay.qnn.op.requantize(x, *scales)
        with relay.qnn.requantize_config(rounding="TONEVEN"):
            even = relay.qnn.op.requantize(x, *scales)
    np.testing.assert_array_equal(_run(inside, x=values), [-3, -2, -1, 1, 2, 3])
    np.testing.assert_array_equal(_run(even, x=values), [-2, -2, 0, 0, 2, 2])
    assert (inside.attrs.rounding, inside.attrs.compute_dtype) == ("TONEAREST", "float32")
    with pytest.raises(TypeCheckError, match="UP"):
        relay.qnn.requantize_config(rounding="UP")


def test_convolution_and_product() -> None:
    x, w = relay.var("x", shape=(1, 1, 2, 3), dtype="uint8"), relay.var("w", shape=(1, 1, 2, 2), dtype="uint8")
    call = relay.qnn.op.conv2d(x, w, _zero(5), _zero(3), _scale(1.0), _scale(1.0), kernel_size=(2, 2), channels=1)
    data, kernel = np.array([[[[9, 9, 9], [9, 9, 9]]]], np.uint8), np.array([[[[1, 1], [1, 1]]]], np.uint8)
    np.testing.assert_array_equal(_run(call, x=data, w=kernel), [[[[-32, -32]]]])
    y, v = relay.var("y", shape=(2, 3), dtype="int8"), relay.var("v", shape=(2, 3), dtype="int8")
    product = relay.qnn.op.dense(y, v, _zero(1), _zero(0), _scale(1.0), _scale(1.0), units=2)
    got = _run(product, y=np.array([[1, 2, 3], [4, 5, 6]], np.int8), v=np.array([[1, 1, 1], [0, 1, -1]], np.int8))
    np.testing.assert_array_equal(got, [[3, -1], [12, -1]])
    assert product.checked_type.dtype == "int32"


def test_a_depthwise_kernel_as_the_original_lays_it_out() -> None:
    x, w = relay.var("x", shape=(1, 2, 3, 3), dtype="int8"), relay.var("w", shape=(2, 2, 1, 1), dtype="int8")
    call = relay.qnn.op.conv2d(x, w, _zero(0), _zero(0), _scale(1.0), _scale(1.0), (1, 1), 4, groups=2)
    assert tuple(call.checked_type.shape) == (1, 4, 3, 3)


def test_sums_and_functions() -> None:
    x, y = (relay.var(n, shape=(3,), dtype="uint8") for n in "xy")
    own = _scale(0.0078125), _zero(127)
    total = relay.qnn.op.add(x, y, *own, *own, *own)
    got = _run(total, x=np.array([140, 153, 165], np.uint8), y=np.array([133, 155, 250], np.uint8))
    np.testing.assert_array_equal(got, [146, 181, 255])
    joined = relay.qnn.op.concatenate((x, y), (own[0], own[0]), (own[1], own[1]), *own, axis=0)
    assert tuple(joined.checked_type.shape) == (6,)
    leaky = relay.qnn.op.leaky_relu(x, 0.5, _scale(1.0), _zero(100), _scale(1.0), _zero(100))
    np.testing.assert_array_equal(_run(leaky, x=np.array([90, 100, 110], np.uint8)), [95, 100, 110])
    share = relay.qnn.op.sigmoid(x, _scale(0.1), _zero(100), _scale(1 / 256), _zero(0))
    np.testing.assert_array_equal(_run(share, x=np.array([0, 100, 255], np.uint8)), [0, 128, 255])


def test_simulations() -> None:
    x = relay.var("x", shape=(3,))
    values = np.array([0.26, -300.0, 300.0], np.float32)
    np.testing.assert_array_equal(
        _run(relay.qnn.op.simulated_quantize(x, _scale(1.0), _zero(2), out_dtype="uint8"), x=values), [2, 0, 255]
    )
    kind = relay.var("kind", shape=(), dtype="int32")
    free = relay.qnn.simulated_dequantize(x, _scale(0.5), _zero(2), in_dtype=kind)
    np.testing.assert_array_equal(_run(free, x=values, kind=np.int32(0)), values)
    np.testing.assert_allclose(_run(free, x=values, kind=np.int32(1)), [-0.87, -151, 149])
    with pytest.raises(TypeCheckError, match="int4"):
        relay.qnn.simulated_quantize(x, _scale(1.0), _zero(0), out_dtype="int4")


def test_constants_are_folded() -> None:
    q = relay.qnn.op.quantize(relay.const([1.0, 2.0]), _scale(0.5), _zero(0))
    folded = relay.transform.FoldConstantExpr(q, relay.IRModule(), fold_qnn=True)
    assert isinstance(folded, relay.Constant)
    np.testing.assert_array_equal(folded.data.numpy() if hasattr(folded.data, "numpy") else folded.data, [2, 4])


def test_text() -> None:
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(4), int32]) {
      qnn.requantize(%x, 0.5f, 0, 1f, 0, axis=-1, rounding="UPWARD", compute_dtype="int64", out_dtype="int8")
    }"""
    mod = relay.transform.InferType()(relay.parse(text))
    np.testing.assert_array_equal(evaluate(mod.module, [np.array([1, 2, 3, -1], np.int32)]), [1, 1, 2, 0])
    none = relay.parse(text.replace('"UPWARD"', '"None"').replace('"int64"', '"None"'))
    assert str(relay.transform.InferType()(none))
