"""Operators of ONNX Runtime's own domain, against ONNX Runtime; where it has none for CPUs, against their formulas."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

from legato.base.errors import InternalError, LegatoError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.damage import damage, with_constants
from tests.frontend.onnx.microsoft import Array, compare, node_model
from tests.frontend.onnx.peer import legato_outputs, model, ort_outputs, value

RNG = np.random.default_rng(5)


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(low: int, high: int, *shape: int, dtype: str = "int32") -> Array:
    return RNG.integers(low, high, shape).astype(dtype)


def within(low: float, high: float, *shape: int) -> Array:
    return RNG.uniform(low, high, shape).astype(np.float32)


CONV = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
IDS = ints(0, 7, 2, 5)
WORDS = (f32(7, 8), f32(6, 8))

ACTIVATIONS: list[Any] = [
    ("Gelu", [f32(3, 4)], {}),
    ("BiasGelu", [f32(3, 4), f32(4)], {}),
    ("FastGelu", [f32(3, 4), f32(4)], {}),
    ("FastGelu", [f32(3, 4)], {}),
    ("QuickGelu", [f32(3, 4)], {"alpha": 1.5}),
    ("ScaledSiLU", [f32(3, 4)], {"alpha": 1.5}),
    ("GatedAdd", [f32(3, 4), f32(3, 4), f32(3, 1)], {}),
]
PRODUCTS: list[Any] = [
    ("FusedMatMul", [f32(2, 4, 3), f32(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.25}),
    ("FusedMatMul", [f32(3, 4), f32(4, 2)], {}),
    ("FusedMatMul", [f32(4), f32(4, 2)], {}),
    ("TransposeMatMul", [f32(4, 3), f32(4, 5)], {"transA": 1}),
    ("FusedGemm", [f32(3, 4), f32(5, 4), f32(5)], {"transB": 1, "activation": "Relu"}),
    ("FusedGemm", [f32(3, 4), f32(4, 5)], {"activation": "LeakyRelu", "activation_alpha": 0.1}),
    ("FusedGemm", [f32(3, 4), f32(4, 5)], {"activation": "Elu", "activation_alpha": 0.3}),
    (
        "FusedGemm",
        [f32(3, 4), f32(4, 5)],
        {"activation": "HardSigmoid", "activation_alpha": 0.1, "activation_beta": 0.4},
    ),
    ("CDist", [f32(3, 4), f32(5, 4)], {}),
    ("CDist", [f32(3, 4), f32(5, 4)], {"metric": "euclidean"}),
]
NORMALISATIONS: list[Any] = [
    ("SkipLayerNormalization", [f32(2, 3, 4), f32(2, 3, 4), f32(4), f32(4), f32(4)], {"epsilon": 1e-3},
     ["y", "", "", "s"]),
    ("SkipLayerNormalization", [f32(2, 3, 4), f32(3, 4), f32(4)], {}),
    ("SkipLayerNormalization", [f32(2, 3, 4), f32(1, 3, 4), f32(4), f32(4)], {}),
    ("SkipSimplifiedLayerNormalization", [f32(2, 3, 4), f32(2, 3, 4), f32(4)], {}),
    ("SkipSimplifiedLayerNormalization", [f32(3, 4), f32(3, 4), f32(4), f32(4)], {"epsilon": 0.1}, ["y", "", "", "s"]),
    ("GatedRMSNorm", [f32(2, 3, 8), f32(4), f32(2, 3, 8)], {}),
    ("BranchwiseRMSNorm", [f32(2, 3, 4), f32(3, 4)], {"epsilon": 0.1}),
    ("BranchwiseRMSNorm", [f32(2, 12)], {"num_branches": 3}),
    ("GatedRMSNorm", [f32(2, 3, 8), f32(8), f32(2, 3, 8)], {"activation": "sigmoid"}),
    ("EmbedLayerNormalization", [IDS, ints(0, 2, 2, 5), *WORDS, f32(2, 8), f32(8), f32(8), ints(0, 2, 2, 5)],
     {"epsilon": 1e-3}, 3),
    ("EmbedLayerNormalization", [IDS, None, *WORDS, None, f32(8), f32(8)], {}, 2),
    ("EmbedLayerNormalization", [IDS, None, *WORDS, None, f32(8), f32(8), None, ints(0, 6, 2, 5)], {}, 2),
    ("EmbedLayerNormalization", [IDS, None, *WORDS, None, f32(8), f32(8), None, ints(0, 6, 1, 5)], {}, 2),
]  # fmt: skip
LETTERS = np.array([[3, 1, 4, 1, 5, 8], [2, 6, 5, 3, 5, 0], [7, 2, 0, 0, 0, 0], [1, 8, 0, 2, 8, 0]], np.int32)
MOVES: list[Any] = [
    ("WordConvEmbedding", [LETTERS, f32(5, 1, 3, 4), f32(5), f32(9, 4)], {}),
    ("WordConvEmbedding", [LETTERS[:, :3].copy(), f32(5, 1, 3, 4), f32(5), f32(9, 4)], {"conv_window_size": 3}),
    ("Pad", [f32(3, 4), np.array([0, 1, 2, 0])], {}),
    ("Pad", [f32(3, 4), np.array([[0, 1, 2, 0]]), f32(1)], {}),
    ("Pad", [f32(3, 4), np.array([0, 1, 2, 0])], {"mode": "reflect"}),
    ("Trilu", [f32(3, 4), np.array(1)], {"upper": 0}),
    ("Unique", [ints(0, 4, 9, dtype="float32")], {}, 3),
    ("Range", [np.array([1], np.float32), np.array([7], np.float32), np.array([2], np.float32)], {}),
    ("Range", [np.array(1), np.array(7)], {}),
    ("SampleOp", [f32(3, 4)], {}),
    ("UnfoldTensor", [f32(3, 9, 2)], {"dim": 1, "size": 3, "step": 2}),
    ("NGramRepeatBlock", [np.array([[0, 1, 2, 0, 1], [3, 3, 3, 3, 3]]), f32(2, 5)], {"ngram_size": 3}),
    *(("NGramRepeatBlock", [ints(0, 3, 2, length, dtype="int64"), f32(2, 3)], {"ngram_size": size})
      for length, size in ((1, 4), (2, 4), (3, 4), (4, 4), (5, 1), (3, 2))),
    ("MurmurHash3", [ints(-9999, 9999, 3, 4)], {}),
    ("MurmurHash3", [ints(-9999, 9999, 3, 4)], {"positive": 0, "seed": 42}),
    ("MurmurHash3", [ints(-(2**60), 2**60, 3, 4, dtype="int64")], {"seed": 7}),
    ("GridSample", [f32(1, 2, 5, 6), within(-1.2, 1.2, 1, 3, 4, 2)], {}),
    ("GridSample", [f32(1, 2, 5, 6), within(-1.2, 1.2, 1, 3, 4, 2)],
     {"mode": "bicubic", "padding_mode": "border", "align_corners": 1}),
    *(("CropAndResize", [f32(2, 3, 7, 6), within(-0.1, 1.2, 5, 4), ints(0, 2, 5), np.array(size, np.int32)],
       {"mode": mode, "extrapolation_value": 2.5}) for mode in ("bilinear", "nearest") for size in ((3, 4), (1, 2))),
]  # fmt: skip


@pytest.mark.parametrize("case", [*ACTIVATIONS, *PRODUCTS, *NORMALISATIONS, *MOVES], ids=lambda case: case[0])
def test_equals_onnxruntime(case: Any) -> None:
    compare(*case)


# Extents that must be known: of weights of convolutions, of matrices that are inverted, of subscripts.
FIXED: list[Any] = [
    ("BranchwiseRMSNorm", [f32(2, 3, 4), f32(4)], {}, (0, 1)),
    ("BranchwiseRMSNorm", [f32(2, 12), f32(12)], {"num_branches": 3}, (0, 1)),
    ("FusedConv", [f32(1, 2, 5, 5), f32(3, 2, 3, 3), f32(3)], {**CONV, "activation": "Relu"}, (1,)),
    ("FusedConv", [f32(1, 2, 5, 5), f32(3, 2, 3, 3)], {"activation": "LeakyRelu", "activation_params": [0.2]}, (1,)),
    ("FusedConv", [f32(1, 2, 5, 5), f32(3, 2, 3, 3)], {"activation": "Clip", "activation_params": [-0.5, 0.5]}, (1,)),
    ("FusedConv", [f32(1, 2, 5, 5), f32(3, 2, 3, 3), f32(3), f32(1, 3, 5, 5)], {**CONV, "activation": "Relu"}, (1, 2)),
    ("NhwcMaxPool", [ints(0, 99, 1, 5, 5, 2, dtype="uint8")], {"kernel_shape": [2, 2], "strides": [2, 2]}, ()),
    ("NhwcMaxPool", [ints(-99, 99, 1, 5, 5, 2, dtype="int8")], CONV, ()),
    ("ConvTransposeWithDynamicPads", [f32(1, 2, 5, 5), f32(2, 3, 3, 3), np.array([1, 0, 0, 1]), f32(3)],
     {"strides": [2, 2], "output_padding": [1, 1]}, (1, 2)),
    ("Inverse", [f32(2, 3, 4, 4)], {}, (0,)),
    ("Inverse", [f32(3, 3)], {}, (0,)),
    ("GatherND", [f32(3, 4, 5), ints(0, 3, 2, 2, dtype="int64")], {}, (1,)),
]  # fmt: skip


@pytest.mark.parametrize("case", FIXED, ids=lambda case: case[0])
def test_equals_onnxruntime_by_known_weights(case: Any) -> None:
    compare(*case[:3], fixed=case[3])


LAST = {case[0]: case for case in [*ACTIVATIONS, *PRODUCTS, *NORMALISATIONS, *MOVES]}
LAST |= {case[0]: case[:3] for case in FIXED}


@pytest.mark.parametrize("operator", LAST)
@pytest.mark.shared(2)
def test_compiled(operator: str) -> None:
    """One case of each operator."""
    compare(*LAST[operator], named=False, half=False, compiled=True)


def test_damaged_nodes() -> None:
    """Whatever is changed, there is no other error than Legato's own."""
    rng = random.Random(1)
    for case in [*LAST.values(), *LAST.values(), *(c[:3] for c in FORMULAS)]:
        proto, feeds = node_model(*case)
        if rng.random() < 0.5:
            with_constants(rng, proto, feeds)
        damage(rng, proto)
        try:
            from_onnx(proto)
        except InternalError:
            raise
        except LegatoError:
            pass


@pytest.mark.parametrize("flags", range(16))
def test_operands_transposed(flags: int) -> None:
    swapped, batch = (flags & 1, flags >> 1 & 1), (flags >> 2 & 1, flags >> 3 & 1)
    operands = []
    for n, shape in enumerate(([2, 3, 4, 5], [2, 3, 5, 6])):
        if swapped[n]:
            shape[2:] = shape[:1:-1]
        operands.append(f32(*([shape[2], *shape[:2], shape[3]] if batch[n] else shape)))
    names = ("transA", "transB", "transBatchA", "transBatchB")
    compare(
        "FusedMatMul", operands, {**dict(zip(names, (*swapped, *batch), strict=True)), "alpha": 0.5}, half=not flags
    )


def _gelu(x: Array) -> Array:
    return np.vectorize(lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))), otypes=[np.float32])(x)


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def _groups(x: Array, groups: int) -> Array:
    """x [n, h, w, c] normalised over groups of channels."""
    n, h, w, c = x.shape
    parts = x.reshape(n, h * w, groups, c // groups).astype(np.float64)
    mean, var = parts.mean(axis=(1, 3), keepdims=True), parts.var(axis=(1, 3), keepdims=True)
    return np.float32((parts - mean) / np.sqrt(var + 1e-5)).reshape(x.shape)


def _fast_gelu(x: Array) -> Array:
    return np.float32(x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _complex(x: Array) -> Array:
    return x[..., 0] + 1j * x[..., 1]


def _parts(z: Array) -> Array:
    return np.stack([z.real, z.imag], axis=-1).astype(np.float32)


FORMULAS: list[tuple[str, list[Array], dict[str, Any], Callable[..., Any]]] = [
    ("BiasSplitGelu", [f32(2, 3, 8), f32(8)], {}, lambda x, b: (x + b)[..., :4] * _gelu((x + b)[..., 4:])),
    ("BiasAdd", [f32(2, 3, 8), f32(8), f32(2, 3, 8)], {}, lambda x, b, s: x + b + s),
    ("BiasDropout", [f32(2, 3), f32(3), f32(2, 3)], {}, lambda x, b, r: (x + b + r, np.ones((2, 3), bool))),
    ("BiasSoftmax", [f32(2, 3, 4), f32(1, 1, 4)], {"axis": 2, "is_inner_broadcast": 1},
     lambda x, b: np.exp(x + b) / np.exp(x + b).sum(-1, keepdims=True)),
    ("SwiGLU", [f32(3, 4)], {"activation_alpha": 1.5, "limit": 0.7, "activation_beta": 1.0},
     lambda x: (g := np.minimum(x[:, :2], 0.7)) / (1 + np.exp(-1.5 * g)) * (np.clip(x[:, 2:], -0.7, 0.7) + 1)),
    ("SwiGLU", [f32(3, 4), f32(3, 4)], {"round_activation": 1}, lambda g, x: _silu(g) * x),
    ("FusedMatMulActivation", [f32(3, 4), f32(4, 5)], {"activation": "Tanh"}, lambda x, y: np.tanh(x @ y)),
    ("FusedMatMulActivation", [f32(3, 4), f32(4, 5)], {"activation": "Softmax", "activation_axis": 0},
     lambda x, y: np.exp(x @ y) / np.exp(x @ y).sum(0)),
    ("GemmFastGelu", [f32(3, 4), f32(4, 5), f32(5)], {}, lambda x, y, b: _fast_gelu(x @ y + b)),
    ("ComplexMul", [f32(3, 2), f32(3, 2)], {}, lambda x, y: _parts(_complex(x) * _complex(y))),
    ("ComplexMulConj", [f32(3, 2), f32(3, 2)], {}, lambda x, y: _parts(_complex(x) * _complex(y).conj())),
    ("GroupNorm", [f32(2, 3, 3, 8), f32(8), f32(8)], {"groups": 4, "activation": 1},
     lambda x, g, b: _silu(_groups(x, 4) * g + b)),
    ("GroupNorm", [f32(2, 8, 3, 3), f32(8), f32(8)], {"groups": 4, "activation": 0, "channels_last": 0},
     lambda x, g, b: (_groups(x.transpose(0, 2, 3, 1), 4) * g + b).transpose(0, 3, 1, 2)),
    ("SkipGroupNorm", [f32(2, 3, 3, 8), f32(8), f32(8), f32(2, 8), f32(8)], {"groups": 2, "activation": 0},
     lambda x, g, b, s, e: (_groups(t := x + s[:, None, None] + e, 2) * g + b, t)),
    ("Rfft", [f32(2, 8)], {"signal_ndim": 1}, lambda x: _parts(np.fft.rfft(x))),
    ("Irfft", [f32(2, 5, 2)], {"signal_ndim": 1}, lambda x: np.float32(np.fft.irfft(_complex(x)))),
    ("TorchEmbedding", [f32(3, 4), ints(0, 3, 2, dtype="int64")], {}, lambda w, n: w[n]),
    ("IsAllFinite", [f32(3, 4), np.array([np.nan], np.float32)], {}, lambda *xs: np.array(False)),
    ("IsAllFinite", [np.array([np.nan, 1], np.float32)], {"isinf_only": 1}, lambda *xs: np.array(True)),
    ("IsAllFinite", [f32(3, 4), f32(2)], {"isnan_only": 1}, lambda *xs: np.array(True)),
]  # fmt: skip


@pytest.mark.parametrize("case", FORMULAS, ids=lambda case: case[0])
def test_equals_its_formula(case: tuple[str, list[Array], dict[str, Any], Callable[..., Any]]) -> None:
    operator, inputs, attributes, formula = case
    wanted = formula(*inputs)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    compare(operator, inputs, attributes, len(wanted), wanted=wanted)


def test_convolutions_with_channels_last() -> None:
    x, w, b, z = f32(1, 5, 6, 2), f32(3, 2, 3, 3), f32(3), f32(1, 5, 6, 3)
    first = (x.transpose(0, 3, 1, 2), w, b, z.transpose(0, 3, 1, 2))
    proto, feeds = node_model("FusedConv", first, {**CONV, "activation": "Relu"})
    wanted = legato_outputs(proto, feeds)[0].transpose(0, 2, 3, 1)
    compare("NhwcFusedConv", [x, w, b, z], {**CONV, "activation": "Relu"}, wanted=[wanted], fixed=(1,))
    proto, feeds = node_model("Conv", first[:3], CONV, domain="")
    wanted = legato_outputs(proto, feeds)[0].transpose(0, 2, 3, 1)
    compare("NhwcConv", [x, w, b], CONV, wanted=[wanted], fixed=(1,))


def test_expand_dims_along_an_axis_of_the_file() -> None:
    node = helper.make_node("ExpandDims", ["x", "axis"], ["y"], domain="com.microsoft")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = model([node], [value("x", (3, 4))], ("y",), {"axis": np.array(-2, np.int32)}, opset_imports=opsets)
    assert legato_outputs(proto, {"x": f32(3, 4)})[0].shape == (3, 1, 4)


def test_a_word_without_characters_is_zeros() -> None:
    """In ONNX Runtime it is what was in memory."""
    proto, feeds = node_model("WordConvEmbedding", [np.zeros((1, 4), np.int32), f32(5, 1, 3, 4), f32(5), f32(9, 4)])
    assert not legato_outputs(proto, feeds)[0].any()


def test_files_need_not_name_the_domain() -> None:
    """ONNX Runtime's tools do so only when they save a file."""
    proto, feeds = node_model("BiasGelu", [f32(3, 4), f32(4)])
    (wanted,) = ort_outputs(proto, feeds)
    del proto.opset_import[1]
    np.testing.assert_allclose(legato_outputs(proto, feeds)[0], wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ort_outputs(proto, feeds)[0], wanted, rtol=1e-4, atol=1e-5)


def test_simplified_layer_normalization_is_in_the_standard_domain() -> None:
    compare("SimplifiedLayerNormalization", [f32(2, 3, 4), f32(4)], {"epsilon": 1e-3}, 2, domain="", half=False)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "text"),
    [
        ("MoE", [f32(2, 3)], {}, "experts"),
        ("GreedySearch", [ints(0, 3, 1, 2)], {}, "decoder"),
        ("MatMulFpQ4", [f32(2, 3)], {}, "packed"),
        ("Snpe", [f32(2, 3)], {}, "another compiler"),
        ("CDist", [f32(2, 3), f32(2, 3)], {"metric": "cosine"}, "cosine"),
        ("FusedGemm", [f32(2, 3), f32(3, 2)], {"activation": "Mish"}, "Mish"),
        ("BiasDropout", [f32(2, 3), f32(3), None, None, np.array(True)], {}, "training"),
        ("MurmurHash3", [f32(2)], {}, "integers"),
        ("Rfft", [f32(2, 8)], {"signal_ndim": 2}, "signal_ndim"),
    ],
)
def test_refusals_say_what_would_help(
    operator: str, inputs: list[Array], attributes: dict[str, Any], text: str
) -> None:
    with pytest.raises(UnsupportedError, match=text):
        from_onnx(node_model(operator, inputs, attributes)[0])


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("EmbedLayerNormalization", [IDS, None, WORDS[0]], {}),
        ("GroupNorm", [f32(2, 3, 3, 8), f32(8), f32(8)], {"groups": 4, "activation": 2}),
        ("CropAndResize", [f32(2, 3, 7, 6), f32(5, 3), ints(0, 2, 5), ints(2, 3, 2)], {}),
        ("BiasSplitGelu", [f32(2, 7), f32(7)], {}),
        ("ComplexMul", [f32(3, 3), f32(3, 3)], {}),
        ("UnfoldTensor", [f32(3)], {"size": 4}),
        ("WordConvEmbedding", [LETTERS[:, :2], f32(5, 1, 3, 4), f32(5), f32(9, 4)], {}),
        ("WordConvEmbedding", [LETTERS, f32(5, 1, 3, 4), f32(5), f32(9, 4)], {"embedding_size": 6}),
    ],
)
def test_faults(operator: str, inputs: list[Array], attributes: dict[str, Any]) -> None:
    with pytest.raises(LegatoError):
        from_onnx(node_model(operator, inputs, attributes)[0])
