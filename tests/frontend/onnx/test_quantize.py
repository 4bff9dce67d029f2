"""Quantised operators against ONNX Runtime: within one quantisation step, over random attributes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper

import legato
from legato.base.errors import InternalError, LegatoError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.damage import damage, with_constants
from tests.frontend.onnx.node_survey import with_names
from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

Rng = np.random.Generator
Case = tuple[str, list[Array | None], dict[str, Any]]  # an operator, its inputs, its attributes
OPSETS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]


# ------------------------------------------------------------------ random operands


def integers(rng: Rng, dtype: str, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def scale(rng: Rng, *shape: int) -> Array:
    return np.asarray(2.0 ** rng.uniform(-8, -2, shape), np.float32)


def zero(rng: Rng, dtype: str, *shape: int) -> Array:
    near = 128 if dtype == "uint8" else 0
    return np.asarray(near + rng.integers(-20, 20, shape), dtype)


def f32(rng: Rng, *shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def of(rng: Rng, dtype: str, *shape: int) -> list[Array | None]:
    """Codes, their scale, their zero point."""
    return [integers(rng, dtype, *shape), scale(rng), zero(rng, dtype)]


def some(rng: Rng, *choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


# ------------------------------------------------------------------ operators


def quantize_linear(rng: Rng) -> Case:
    dtype, axis = some(rng, "int8", "uint8", "int16", "uint16"), some(rng, None, 0, 1, -1)
    x = f32(rng, 3, 4, 5) * 9
    own = () if axis is None else (x.shape[axis],)
    block = some(rng, 0, 2) if axis == 1 else 0
    shape = (3, 2, 5) if block else own
    kept = {} if axis is None else {"axis": axis} | ({"block_size": block} if block else {})
    return "QuantizeLinear", [x, scale(rng, *shape), zero(rng, dtype, *shape)], kept


def dequantize_linear(rng: Rng) -> Case:
    dtype, axis = some(rng, "int8", "uint8", "int16", "uint16"), some(rng, 0, 1, -1)
    x = integers(rng, dtype, 3, 4, 5)
    return "DequantizeLinear", [x, scale(rng, x.shape[axis]), zero(rng, dtype, x.shape[axis])], {"axis": axis}


def dynamic_quantize_linear(rng: Rng) -> Case:
    return "DynamicQuantizeLinear", [f32(rng, 3, 4) + some(rng, 0, 5, -5)], {}


def _window(rng: Rng, spatial: int) -> dict[str, Any]:
    kind = some(rng, "plain", "pads", "auto")
    if kind == "auto":
        return {"auto_pad": some(rng, "SAME_UPPER", "SAME_LOWER", "VALID")}
    pads = [int(p) for p in rng.integers(0, 2, 2 * spatial)] if kind == "pads" else [0] * 2 * spatial
    return {"pads": pads, "strides": [int(s) for s in rng.integers(1, 3, spatial)]}


def q_linear_conv(rng: Rng) -> Case:
    spatial, group = some(rng, 1, 2, 2, 3), some(rng, 1, 2)
    dtype, wtype = some(rng, ("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"))
    each = (4,) if some(rng, 0, 1) else ()
    w = [integers(rng, wtype, 4, 4 // group, *(3,) * spatial), scale(rng, *each), np.zeros(each, wtype)]
    bias = [integers(rng, "int16", 4).astype(np.int32)] if some(rng, 0, 1) else []
    result = [np.float32(2.0), zero(rng, dtype)]
    return "QLinearConv", [*of(rng, dtype, 2, 4, *(6,) * spatial), *w, *result, *bias], {
        "group": group, **_window(rng, spatial)}  # fmt: skip


def conv_integer(rng: Rng) -> Case:
    x, w = integers(rng, "uint8", 1, 2, 6, 6), integers(rng, some(rng, "uint8", "int8"), 3, 2, 3, 3)
    zeros = [zero(rng, "uint8"), zero(rng, str(w.dtype))][: some(rng, 0, 1, 2)]
    return "ConvInteger", [x, w, *zeros], _window(rng, 2)


def mat_mul_integer(rng: Rng) -> Case:
    x, y = integers(rng, "uint8", 2, 3, 4), integers(rng, some(rng, "uint8", "int8"), *some(rng, (4, 5), (2, 4, 5)))
    zeros = [zero(rng, "uint8"), zero(rng, str(y.dtype))][: some(rng, 0, 1, 2)]
    return "MatMulInteger", [x, y, *zeros], {}


def q_linear_mat_mul(rng: Rng) -> Case:
    dtype, wtype = some(rng, ("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8"))
    each = (5,) if some(rng, 0, 1) else ()
    y = [integers(rng, wtype, 4, 5), scale(rng, *each), zero(rng, wtype, *each)]
    return "QLinearMatMul", [*of(rng, dtype, 2, 3, 4), *y, np.float32(1.0), zero(rng, dtype)], {}


def _pointwise(name: str) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        dtype = some(rng, "int8", "uint8")
        left, right = some(rng, ((2, 3, 4), (2, 3, 4)), ((2, 3, 4), (4,)), ((3, 1), (3, 5)), ((1,), (7,)))
        both = [*of(rng, dtype, *left), *of(rng, dtype, *right)]
        return name, [*both, scale(rng), zero(rng, dtype)], {}

    return make


def q_linear_concat(rng: Rng) -> Case:
    parts = [p for n in (1, 2, 3) for p in of(rng, "uint8", 2, n, 3)]
    return "QLinearConcat", [scale(rng), zero(rng, "uint8"), *parts], {"axis": some(rng, 1, -2)}


def q_linear_average_pool(rng: Rng) -> Case:
    dtype = some(rng, "int8", "uint8")
    attrs = {"kernel_shape": [3, 2], "count_include_pad": some(rng, 0, 1), "channels_last": some(rng, 0, 1)}
    return "QLinearAveragePool", [*of(rng, dtype, 2, 6, 6, 6), scale(rng), zero(rng, dtype)], {
        **attrs, "pads": [1, 0, 1, 1], "strides": [2, 1]}  # fmt: skip


def q_linear_global_average_pool(rng: Rng) -> Case:
    dtype = some(rng, "int8", "uint8")
    inputs = [*of(rng, dtype, 2, 3, 5, 4), scale(rng), zero(rng, dtype)]
    return "QLinearGlobalAveragePool", inputs, {"channels_last": some(rng, 0, 1)}


def _unary(name: str, **attributes: Any) -> Callable[[Rng], Case]:
    def make(rng: Rng) -> Case:
        dtype = some(rng, "int8", "uint8")
        return name, [*of(rng, dtype, 3, 40), np.float32(1 / 200), zero(rng, dtype)], attributes

    return make


def q_linear_softmax(rng: Rng) -> Case:
    dtype = some(rng, "int8", "uint8")
    result = [np.float32(1 / 256), np.asarray(np.iinfo(dtype).min, dtype)]
    attrs = {"axis": some(rng, 1, 2, -1), "opset": some(rng, 11, 13)}
    return "QLinearSoftmax", [*of(rng, dtype, 3, 4, 5), *result], attrs


def q_gemm(rng: Rng) -> Case:
    turned, each = (some(rng, 0, 1), some(rng, 0, 1)), some(rng, (), (5,))
    x = of(rng, "uint8", *((4, 3) if turned[0] else (3, 4)))
    y = [integers(rng, "int8", *((5, 4) if turned[1] else (4, 5))), scale(rng, *each), zero(rng, "int8", *each)]
    c = some(rng, None, integers(rng, "int8", 5).astype(np.int32))
    result = some(rng, [], [np.float32(0.5), zero(rng, "uint8")])
    attrs = {"transA": turned[0], "transB": turned[1], "alpha": some(rng, 1.0, 0.5)}
    return "QGemm", [*x, *y, c, *result], attrs


def mat_mul_integer_to_float(rng: Rng) -> Case:
    each = some(rng, (), (5,))
    x, y = integers(rng, "uint8", 2, 3, 4), integers(rng, "int8", 4, 5)
    zeros = some(rng, [], [zero(rng, "uint8"), zero(rng, "int8", *each)])
    bias = some(rng, [], [f32(rng, 5)]) if zeros else []
    return "MatMulIntegerToFloat", [x, y, scale(rng), scale(rng, *each), *zeros, *bias], {}


def dynamic_quantize_mat_mul(rng: Rng) -> Case:
    each = some(rng, (), (5,))
    more = some(rng, [], [zero(rng, "int8", *each)], [zero(rng, "int8", *each), f32(rng, 5)])
    return "DynamicQuantizeMatMul", [f32(rng, 2, 3, 4), integers(rng, "int8", 4, 5), scale(rng, *each), *more], {}


def mat_mul_n_bits(rng: Rng) -> Case:
    bits, block, k, n = some(rng, 4, 4, 8), some(rng, 16, 32), some(rng, 32, 40), 6
    blocks = -(-k // block)
    packed = integers(rng, "uint8", n, blocks, block * bits // 8)
    zeros = some(rng, None, integers(rng, "uint8", n * -(-blocks * bits // 8)))
    bias = some(rng, [], [None, f32(rng, n)])
    attrs = {"K": k, "N": n, "bits": bits, "block_size": block}
    return "MatMulNBits", [f32(rng, 2, 3, k), packed, scale(rng, n * blocks), zeros, *bias], attrs


def dynamic_quantize_lstm(rng: Rng) -> Case:
    units, count = 3, some(rng, 1, 2)
    w, r = integers(rng, "int8", count, 5, 4 * units), integers(rng, "int8", count, units, 4 * units)
    each = some(rng, (count,), (count, 4 * units))
    own = [p for _ in "wr" for p in (scale(rng, *each) / 10, np.zeros(each, np.int8))]
    attrs = {"hidden_size": units, "direction": "forward" if count == 1 else "bidirectional"}
    rest = [some(rng, None, f32(rng, count, 8 * units)), None, None, None, None]
    return "DynamicQuantizeLSTM", [f32(rng, 4, 2, 5), w, r, *rest, *own], attrs


def channels_last_conv(rng: Rng) -> Case:
    x = [integers(rng, "uint8", 2, 6, 5, 3), scale(rng), zero(rng, "uint8")]
    w = [integers(rng, "int8", 4, 3, 3, 2), scale(rng, 4), np.zeros(4, np.int8)]
    return "QLinearConv", [*x, *w, np.float32(2.0), zero(rng, "uint8")], {"channels_last": 1, **_window(rng, 2)}


def q_linear_where(rng: Rng) -> Case:
    dtype = some(rng, "int8", "uint8")
    condition = np.asarray(rng.random((2, 1, 4)) < 0.5)
    inputs = [condition, *of(rng, dtype, 3, 4), *of(rng, dtype, 2, 3, 1), scale(rng), zero(rng, dtype)]
    return "QLinearWhere", inputs, {}


def q_attention(rng: Rng) -> Case:
    each = some(rng, (), (24,))
    w = [scale(rng, *each), some(rng, None, integers(rng, "int8", 2).clip(1, 4).astype(np.int32))]
    zeros = [zero(rng, "uint8"), zero(rng, "int8", *each)]
    past = some(rng, [], [f32(rng, 2, 2, 2, 3, 4)]) if w[1] is None else []
    x, weights = integers(rng, "uint8", 2, 4, 6), integers(rng, "int8", 6, 24)
    attrs = {"num_heads": 2, "unidirectional": some(rng, 0, 1)}
    return "QAttention", [x, weights, f32(rng, 24), scale(rng) / 8, *w, *zeros, *past], attrs


CASES: dict[str, Callable[[Rng], Case]] = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
    "QLinearConv": q_linear_conv,
    "ConvInteger": conv_integer,
    "MatMulInteger": mat_mul_integer,
    "QLinearMatMul": q_linear_mat_mul,
}
OWN: dict[str, Callable[[Rng], Case]] = {  # ONNX Runtime's own
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "QLinearAdd": _pointwise("QLinearAdd"),
    "QLinearMul": _pointwise("QLinearMul"),
    "QLinearConcat": q_linear_concat,
    "QLinearAveragePool": q_linear_average_pool,
    "QLinearGlobalAveragePool": q_linear_global_average_pool,
    "QLinearSigmoid": _unary("QLinearSigmoid"),
    "QLinearLeakyRelu": _unary("QLinearLeakyRelu", alpha=0.2),
    "QLinearSoftmax": q_linear_softmax,
    "QAttention": q_attention,
    "QLinearConv": channels_last_conv,
    "QLinearWhere": q_linear_where,
    "QGemm": q_gemm,
    "MatMulIntegerToFloat": mat_mul_integer_to_float,
    "DynamicQuantizeMatMul": dynamic_quantize_mat_mul,
    "MatMulNBits": mat_mul_n_bits,
    "DynamicQuantizeLSTM": dynamic_quantize_lstm,
}
# Numbers are equal but for the rounding of sums; the state of DynamicQuantizeLSTM has 8 bits between steps there.
STEPS = {"DynamicQuantizeLSTM": 2 / 255}
OUTPUTS = {"DynamicQuantizeLinear": ["y", "scale", "zero"], "QAttention": ["y", "present"]}
EXACT = {"ConvInteger", "MatMulInteger"}
ALL = [*(("", name, make) for name, make in CASES.items()),
       *(("com.microsoft", name, make) for name, make in OWN.items())]  # fmt: skip


def drawn(domain: str, make: Callable[[Rng], Case], count: int) -> Iterator[tuple[Any, dict[str, Array], Any]]:
    """Models of one operator, what they are fed, and what ONNX Runtime gives."""
    rng = np.random.default_rng(3)
    while count:
        operator, inputs, attributes = make(rng)
        if domain and operator == "QuantizeLinear" and "block_size" in attributes:
            continue
        count -= 1
        feeds = {f"x{n}": np.asarray(a) for n, a in enumerate(inputs) if a is not None}
        outputs = OUTPUTS.get(operator, ["y"])
        names = ["" if a is None else f"x{n}" for n, a in enumerate(inputs)]
        node = helper.make_node(operator, names, outputs, domain=domain, **attributes)
        given = [value(name, a.shape, str(a.dtype)) for name, a in feeds.items()]
        proto = model([node], given, outputs, opset_imports=OPSETS, ir_version=10)
        yield proto, feeds, ort_outputs(proto, feeds)


def assert_near(operator: str, got: Array, want: Array, what: object) -> None:
    """Within a step: of codes 1, of numbers the rounding of sums."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype), what
    if got.dtype.kind in "iu":
        apart = np.abs(got.astype(np.int64) - want.astype(np.int64)).max(initial=0)
        assert apart <= (0 if operator in EXACT else 1), what
    else:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=STEPS.get(operator, 1e-4), err_msg=str(what))


@pytest.mark.parametrize(("domain", "operator", "make"), ALL, ids=[f"{d or 'onnx'}-{n}" for d, n, _ in ALL])
def test_within_a_step_of_onnxruntime(domain: str, operator: str, make: Callable[[Rng], Case]) -> None:
    for proto, feeds, wanted in drawn(domain, make, 8):
        for got, want in zip(legato_outputs(proto, feeds), wanted, strict=True):
            assert_near(operator, got, want, proto.graph.node[0])


@pytest.mark.parametrize(("domain", "operator", "make"), ALL, ids=[f"{d or 'onnx'}-{n}" for d, n, _ in ALL])
@pytest.mark.shared(2)
def test_compiled(domain: str, operator: str, make: Callable[[Rng], Case]) -> None:
    """Natively, as interpreted."""
    for proto, feeds, wanted in drawn(domain, make, 1):
        exe = legato.compile(from_onnx(proto))
        assert exe.stats["host_operators"] == 0
        found = exe.run({name: feeds[name] for name in (i.name for i in exe.inputs)})
        for got, want in zip(found.values(), wanted, strict=True):
            assert_near(operator, got, want, proto.graph.node[0])


@pytest.mark.parametrize(("domain", "operator", "make"), ALL, ids=[f"{d or 'onnx'}-{n}" for d, n, _ in ALL])
def test_of_any_extents(domain: str, operator: str, make: Callable[[Rng], Case]) -> None:
    """Every extent has a name: the same codes, or a refusal that says which extent must be known."""
    for proto, feeds, wanted in drawn(domain, make, 4):
        try:
            found = legato_outputs(with_names(proto), feeds)
        except UnsupportedError:
            continue
        for got, want in zip(found, wanted, strict=True):
            assert_near(operator, got, want, proto.graph.node[0])


@pytest.mark.parametrize(("domain", "operator", "make"), ALL, ids=[f"{d or 'onnx'}-{n}" for d, n, _ in ALL])
def test_damaged_nodes(domain: str, operator: str, make: Callable[[Rng], Case]) -> None:
    """Whatever is changed, there is no other error than Legato's own."""
    rng = random.Random(1)
    for proto, feeds, _ in drawn(domain, make, 6):
        if rng.random() < 0.5:
            with_constants(rng, proto, feeds)
        damage(rng, proto)
        try:
            from_onnx(proto)
        except InternalError:
            raise
        except LegatoError:
            pass
