"""Attention by a state and the convolution before it, against ONNX Runtime's; and attention with bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from legato.base.errors import LegatoError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.microsoft import Array, compare, node_model
from tests.frontend.onnx.peer import legato_outputs, model, reference_outputs, value

RNG = np.random.default_rng(11)
BATCH, OWN, KEY, VALUE = 2, 2, 4, 3


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def operands(heads: int, steps: int, *, decay: int = 0, beta: int = 0, past: bool = True) -> list[Array | None]:
    """Queries, keys and values, a state, and how many numbers of decay and beta there are for each step."""
    q, k, v = f32(BATCH, steps, heads * KEY), f32(BATCH, steps, OWN * KEY) * 0.3, f32(BATCH, steps, OWN * VALUE)
    return [q, k.astype(np.float32), v, f32(BATCH, OWN, KEY, VALUE) if past else None,
            -np.abs(f32(BATCH, steps, decay)) if decay else None,
            np.abs(f32(BATCH, steps, beta)) * np.float32(0.5) if beta else None]  # fmt: skip


RULES: list[tuple[str, dict[str, Any]]] = [
    ("linear", {}),
    ("gated", {"decay": OWN, "past": False}),
    ("gated", {"decay": OWN * KEY}),
    ("delta", {"beta": OWN}),
    ("gated_delta", {"decay": OWN, "beta": 1}),
]


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("heads", [1, 2, 4])
@pytest.mark.parametrize(("rule", "given"), RULES)
def test_linear_attention(rule: str, given: dict[str, Any], heads: int, steps: int) -> None:
    """Of one head of queries there are fewer than of keys."""
    attributes = {"q_num_heads": heads, "kv_num_heads": OWN, "update_rule": rule, "scale": 0.5 if heads == 4 else 0.0}
    compare("LinearAttention", operands(heads, steps, **given), attributes, 2, named=heads > 1)


def test_linear_attention_compiled() -> None:
    attributes = {"q_num_heads": 2, "kv_num_heads": OWN, "update_rule": "gated_delta"}
    inputs = operands(2, 5, decay=OWN, beta=OWN)
    dims = {
        n: ("batch", *(x.shape[1:] if n == 3 else ("steps", x.shape[2]))) for n, x in enumerate(inputs) if x is not None
    }
    compare("LinearAttention", inputs, attributes, 2, names=dims, compiled=True, half=False)


def test_gates_of_linear_attention() -> None:
    compare("LinearAttentionGate", [f32(2, 5, 3), f32(3), f32(3), f32(2, 5, 3)], None, 2)
    compare("LinearAttentionGate", [f32(2, 5, 3), f32(3), f32(3)])


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("past", [False, True])
def test_causal_convolution(activation: str, dilation: int, past: bool) -> None:
    before = f32(2, 3, 3 * dilation) if past else None
    attributes = {"activation": activation, "dilation": dilation}
    compare("CausalConvWithState", [f32(2, 3, 7), f32(3, 1, 4), f32(3), before], attributes, 2)
    before = f32(2, 3 * dilation, 3, 2) if past else None
    last = [f32(2, 7, 3, 2), f32(6, 1, 4), f32(6), before]
    compare("CausalConvWithState", last, {**attributes, "channels_last": 1}, 2)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "error"),
    [
        ("LinearAttention", operands(2, 3), {"update_rule": "gated"}, LegatoError),
        ("LinearAttention", operands(3, 3), {"update_rule": "linear", "q_num_heads": 3}, LegatoError),
        ("LinearAttention", operands(2, 3), {"update_rule": "linear", "state_window": 2}, UnsupportedError),
        ("LinearAttention", operands(2, 3, decay=3), {"update_rule": "gated"}, LegatoError),
        ("CausalConvWithState", [f32(2, 3, 7), f32(4, 1, 4)], {}, LegatoError),
        ("CausalConvWithState", [f32(2, 3, 7), f32(3, 1, 4), None, f32(2, 3, 2)], {}, LegatoError),
        ("CausalConvWithState", [f32(2, 3, 7, 7), f32(3, 1, 4, 4)], {"ndim": 2}, UnsupportedError),
    ],
)
def test_faults(operator: str, inputs: list[Array], attributes: dict[str, Any], error: type[LegatoError]) -> None:
    heads = {"q_num_heads": 2, "kv_num_heads": OWN} if operator == "LinearAttention" else {}
    with pytest.raises(error):
        from_onnx(node_model(operator, inputs, {**heads, **attributes}, 2)[0])


# ------------------------------------------------------------------ FlexAttention


def _body(*nodes: Any, dtype: int = TensorProto.FLOAT) -> Any:
    """A body that changes scores s to t."""
    ends = [helper.make_tensor_value_info(name, dtype, ["b", "h", "q", "k"]) for name in "st"]
    return helper.make_graph(nodes, "body", ends[:1], ends[1:])


def _flex(inputs: list[Array], **attributes: Any) -> tuple[Any, dict[str, Array]]:
    feeds = dict(zip(("q", "k", "v", "added"), inputs, strict=False))
    node = helper.make_node("FlexAttention", ["q", "k", "v"], ["y"], domain="ai.onnx.preview", **attributes)
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid("ai.onnx.preview", 1)]
    declared = [value(name, array.shape) for name, array in feeds.items()]
    return model([node], declared, opset_imports=opsets), feeds


FLEX = [f32(2, 4, 5, 8), f32(2, 2, 6, 8), f32(2, 2, 6, 3)]
BOTH = {"score_mod": _body(helper.make_node("Tanh", ["s"], ["t"])),
        "prob_mod": _body(helper.make_node("Mul", ["s", "s"], ["t"]))}  # fmt: skip


@pytest.mark.parametrize("attributes", [{}, {"scale": 0.3}, BOTH, {**BOTH, "scale": 0.3}])
@pytest.mark.parametrize("named", [False, True])
def test_flex_attention(attributes: dict[str, Any], named: bool) -> None:
    proto, feeds = _flex(FLEX, **attributes)
    shapes = {name: tuple(f"{name}{n}" for n in range(4)) for name in "qkv"} if named else None
    wanted = reference_outputs(proto, feeds)
    assert wanted is not None
    np.testing.assert_allclose(legato_outputs(proto, feeds, shapes=shapes)[0], wanted[0], rtol=1e-5, atol=1e-5)


def test_a_body_sees_what_is_around_it() -> None:
    inputs = [*FLEX, f32(1, 4, 1, 6)]
    changed = _flex(inputs, score_mod=_body(helper.make_node("Add", ["s", "added"], ["t"])))
    q, k, v, added = inputs
    scores = q @ np.repeat(k, 2, axis=1).swapaxes(2, 3) / np.sqrt(8) + added
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    np.testing.assert_allclose(legato_outputs(*changed)[0], weights @ np.repeat(v, 2, axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "attributes",
    [
        {"score_mod": _body(helper.make_node("ReduceSum", ["s"], ["t"]))},
        {"score_mod": _body(helper.make_node("Cast", ["s"], ["t"], to=TensorProto.DOUBLE), dtype=TensorProto.DOUBLE)},
        {"causal": 1},
        {"scale": "much"},
    ],
)
def test_faults_of_flex_attention(attributes: dict[str, Any]) -> None:
    with pytest.raises(LegatoError):
        from_onnx(_flex(FLEX, **attributes)[0])


def test_what_a_body_cannot_do_is_listed() -> None:
    odd = _body(helper.make_node("Odd", ["s"], ["t"], domain="own"))
    with pytest.raises(UnsupportedError, match="Odd"):
        from_onnx(_flex(FLEX, score_mod=odd)[0])
