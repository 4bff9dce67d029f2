"""A decoder as generators of language models write it: one layer of ONNX Runtime's own operators, with its cache."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HEADS, OWN, SIZE, WORDS = 4, 2, 16, 11
HIDDEN = HEADS * SIZE
CACHE = ("batch", OWN, "past", SIZE)

_MICROSOFT = "com.microsoft"


def decoder() -> onnx.ModelProto:
    """Tokens [batch, length], which of all places are tokens [batch, total], and the cache, to scores of words and the
    cache with the tokens."""
    rng = np.random.default_rng(2)
    weights: dict[str, np.ndarray] = {
        name: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        for name, shape in {
            "embed": (WORDS, HIDDEN), "qkv": (HIDDEN, (HEADS + 2 * OWN) * SIZE), "out": (HIDDEN, HIDDEN),
            "gate": (HIDDEN, 48), "up": (HIDDEN, 48), "down": (48, HIDDEN), "head": (HIDDEN, WORDS),
            **{f"norm{n}": (HIDDEN,) for n in range(3)}, "cos": (32, SIZE // 2), "sin": (32, SIZE // 2),
        }.items()
    }  # fmt: skip
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axis"], ["tokens"], keepdims=0),
        helper.make_node("Sub", ["tokens", "one"], ["last"]),
        helper.make_node("Cast", ["last"], ["seqlens_k"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["mask_shape"]),
        helper.make_node("Gather", ["mask_shape", "one"], ["places"]),
        helper.make_node("Cast", ["places"], ["total"], to=TensorProto.INT32),
        helper.make_node("Gather", ["embed", "ids"], ["x"]),
        helper.make_node("SimplifiedLayerNormalization", ["x", "norm0"], ["x0"], axis=-1, epsilon=1e-5),
        helper.make_node("MatMul", ["x0", "qkv"], ["packed"]),
        helper.make_node(
            "GroupQueryAttention",
            ["packed", "", "", "past_key", "past_value", "seqlens_k", "total", "cos", "sin"],
            ["attended", "key", "value"], domain=_MICROSOFT, num_heads=HEADS, kv_num_heads=OWN, do_rotary=1,
        ),
        helper.make_node("MatMul", ["attended", "out"], ["mixed"]),
        _normalised("x", "mixed", "norm1", "x1", "sum1"),
        helper.make_node("MatMul", ["x1", "gate"], ["gated"]),
        helper.make_node("MatMul", ["x1", "up"], ["upper"]),
        helper.make_node("QuickGelu", ["gated"], ["silu"], domain=_MICROSOFT, alpha=1.0),
        helper.make_node("Mul", ["silu", "upper"], ["both"]),
        helper.make_node("MatMul", ["both", "down"], ["lower"]),
        _normalised("sum1", "lower", "norm2", "x2", ""),
        helper.make_node("MatMul", ["x2", "head"], ["scores"]),
    ]  # fmt: skip
    grown = ("batch", OWN, "total", SIZE)
    tokens, places = ("batch", "length"), ("batch", "total")
    inputs = [_declared("ids", tokens, TensorProto.INT64), _declared("mask", places, TensorProto.INT64),
              _declared("past_key", CACHE), _declared("past_value", CACHE)]  # fmt: skip
    outputs = [_declared("scores", (*tokens, WORDS)), _declared("key", grown), _declared("value", grown)]
    tensors = [numpy_helper.from_array(a, name) for name, a in weights.items()]
    tensors += [numpy_helper.from_array(np.array(1), "one"), numpy_helper.from_array(np.array([1]), "axis")]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(_MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _normalised(x: str, skip: str, weight: str, y: str, total: str) -> onnx.NodeProto:
    results = [y, "", "", total] if total else [y]
    return helper.make_node("SkipSimplifiedLayerNormalization", [x, skip, weight], results, domain=_MICROSOFT,
                            epsilon=1e-5)  # fmt: skip


def _declared(name: str, shape: tuple[int | str, ...], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)
