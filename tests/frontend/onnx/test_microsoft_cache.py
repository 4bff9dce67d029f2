"""Caches and positions in ONNX Runtime's own domain: GroupQueryAttention and rotary embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import ImportModelError, LegatoError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.microsoft import HALF, Array, compare, node_model, symbolic
from tests.frontend.onnx.peer import legato_outputs, ort_outputs

RNG = np.random.default_rng(3)
HEADS, OWN, SIZE = 4, 2, 16


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(low: int, high: int, *shape: int) -> Array:
    return RNG.integers(low, high, shape)


def table(columns: int) -> Array:
    return f32(20, columns)


@pytest.mark.parametrize(
    ("x", "positions", "columns", "attributes"),
    [
        (f32(2, 5, 24), ints(0, 20, 2, 5), 4, {}),
        (f32(2, 5, 24), np.array([3]), 4, {"interleaved": 1}),
        (f32(2, 3, 5, 8), ints(0, 20, 2, 5), 4, {}),
        (f32(2, 3, 5, 8), np.array([2]), 4, {"scale": 3.0}),
        (f32(2, 5, 24), ints(0, 20, 2, 5), 2, {"num_heads": 3, "rotary_embedding_dim": 4}),
        (f32(2, 5, 24), ints(0, 20, 2, 5), 2, {"num_heads": 3, "rotary_embedding_dim": 4, "interleaved": 1}),
        (f32(2, 3, 5, 8), ints(0, 20, 2, 5), 2, {"num_heads": 3, "rotary_embedding_dim": 4}),
        (f32(2, 5, 24), ints(0, 5, 2, 5), 4, {"is_packed_batching": 1}),
    ],
)
def test_rotary_embedding(x: Array, positions: Array, columns: int, attributes: dict[str, Any]) -> None:
    compare("RotaryEmbedding", [x, positions, table(columns), table(columns)], attributes)


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("shape", [(2, 5, 24), (2, 3, 5, 8)])
def test_rotary_embedding_of_three_positions(shape: tuple[int, ...], layout: int) -> None:
    attributes = {"mrope_section": [2, 1, 1], "mrope_layout": layout, "num_heads": 3, "rotary_embedding_dim": 8}
    inputs = [f32(*shape), ints(0, 20, 3, 2, 5), table(4), table(4)]
    compare("MRotaryEmbedding", inputs, attributes, fixed=(2, 3))


def test_rotary_embedding_of_gemma() -> None:
    angles, q, turned_q, k, turned_k = f32(2, 5, 8), *(f32(2, 3, 5, 8) for _ in range(4))
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    wanted = [q * cos + turned_q * sin, k * cos + turned_k * sin]
    compare("GemmaRotaryEmbedding", [angles, q, turned_q, k, turned_k], None, 2, wanted=wanted)


def _bucket(distance: int, count: int, most: int, both: bool) -> int:
    """T5's rule for the distance of a key behind a query."""
    found = 0
    if both:
        count //= 2
        found += count * (distance > 0)
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = count // 2
    if distance < exact:
        return found + distance
    far = np.float32(np.log(np.float32(distance) / np.float32(exact))) / np.log(most / exact) * (count - exact)
    return found + min(exact + int(far), count - 1)


@pytest.mark.parametrize("both", [0, 1])
@pytest.mark.parametrize(("count", "most", "length"), [(8, 16, 6), (32, 128, 100)])
def test_bias_by_distance(count: int, most: int, length: int, both: int) -> None:
    rows = f32(count, 3)
    bucket = np.array([[_bucket(k - q, count, most, bool(both)) for k in range(length)] for q in range(length)])
    inputs = [rows, np.array([length]), np.array([length])]
    attributes = {"is_bidirectional": both, "max_distance": most}
    compare("RelativePositionBias", inputs, attributes, wanted=[rows[bucket].transpose(2, 0, 1)[None]], fixed=(0,))


def test_gated_bias_by_distance() -> None:
    query, own, rel, weight, bias, eco = f32(2, 5, 24), f32(24), f32(1, 3, 5, 5), f32(8, 6), f32(6), f32(1, 3, 1, 1)
    z = (query + own).reshape(2, 5, 3, 8).transpose(0, 2, 1, 3) @ weight + bias
    u, r = (1 / (1 + np.exp(-part.sum(-1, keepdims=True))) for part in (z[..., :3], z[..., 3:]))
    wanted = [(u * (r * eco - 1) + 2) * rel]
    compare("GatedRelativePositionBias", [query, own, rel, weight, bias, eco], {"num_heads": 3}, wanted=wanted)


# ------------------------------------------------------------------ GroupQueryAttention

FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary": {"do_rotary": 1},
    "interleaved": {"do_rotary": 1, "rotary_interleaved": 1},
    "part": {"do_rotary": 1, "columns": 8, "size": 32},
    "packed": {"do_rotary": 1, "packed": True},
    "window": {"local_window_size": 2},
    "softcap": {"softcap": 2.0},
    "smooth": {"smooth_softmax": 1},
    "sink": {"sink": True},
    "scale": {"scale": 0.2},
    "both ways": {"causal": 0},
}
# length, places of the past (None: no past), number of the last token of each row, largest number of tokens
STATES = {"prompt": (5, None, (4, 4), 5), "first": (5, 0, (4, 4), 5), "padded": (5, None, (4, 2), 5),
          "step": (1, 6, (6, 6), 7), "ragged": (1, 6, (6, 3), 7), "buffer": (1, 12, (6, 3), 7),
          "chunk": (3, 4, (6,), 7), "chunk in a buffer": (3, 10, (6,), 7)}  # fmt: skip


def operands(state: str, form: dict[str, Any], half: bool = False) -> tuple[list[Array | None], dict[str, Any]]:
    """The inputs of GroupQueryAttention, and its attributes."""
    attributes = dict(form)
    packed, sink = attributes.pop("packed", False), attributes.pop("sink", False)
    size, columns = attributes.pop("size", SIZE), attributes.pop("columns", 0)
    length, past, last, total = STATES[state]
    batch = len(last)
    widths = [HEADS + 2 * OWN] if packed else [HEADS, OWN, OWN]
    parts: list[Array | None] = [f32(batch, length, n * size) for n in widths]
    parts += [None] * (3 - len(parts))
    parts += [None] * 2 if past is None else [f32(batch, OWN, past, size) for _ in range(2)]
    parts += [np.array(last, np.int32), np.array(total, np.int32)]
    parts += [table(columns or size // 2) if form.get("do_rotary") else None for _ in range(2)]
    parts += [None, None, f32(HEADS) if sink else None, None, None, None, None, None]
    return parts, {"num_heads": HEADS, "kv_num_heads": OWN, **attributes}


def check(inputs: list[Array | None], attributes: dict[str, Any], outputs: Any = 3, tolerance: float = 1e-4) -> None:
    """Tokens and what the cache has of them are as ONNX Runtime has them; padding is anything finite."""
    proto, feeds = node_model("GroupQueryAttention", inputs, attributes, outputs)
    wanted = ort_outputs(proto, feeds)
    for shapes in (None, symbolic(feeds, fixed=(7, 8))):
        compare_tokens(legato_outputs(proto, feeds, shapes=shapes), wanted, inputs, tolerance)


def compare_tokens(found: Any, wanted: Any, inputs: list[Array | None], tolerance: float) -> None:
    assert inputs[0] is not None
    assert inputs[5] is not None
    totals = inputs[5] + 1
    own = np.minimum(inputs[0].shape[1], totals) if inputs[16] is None else inputs[16]
    for n, (got, want) in enumerate(zip(found, wanted, strict=True)):
        assert got.shape == want.shape
        assert np.isfinite(got).all()
        for row, (new, total) in enumerate(zip(own, totals, strict=True)):
            part = (row, slice(new)) if n == 0 else (row, slice(None), slice(total))
            part = (row, slice(None), slice(new), slice(total)) if n == 3 else part
            np.testing.assert_allclose(got[part], want[part], rtol=tolerance, atol=tolerance, err_msg=f"output {n}")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.shared(3)
def test_group_query_attention(form: str, state: str) -> None:
    check(*operands(state, FORMS[form]))


@pytest.mark.parametrize("state", ["prompt", "ragged", "buffer"])
@pytest.mark.parametrize("softcap", [0.0, 2.0])
def test_a_bias_of_scores(state: str, softcap: float) -> None:
    inputs, attributes = operands(state, {"softcap": softcap})
    length, _, last, total = STATES[state]
    inputs[10] = f32(1, HEADS, length, total) if state == "prompt" else f32(len(last), 1, length, total)
    check(inputs, attributes)


@pytest.mark.parametrize(("state", "positions"), [("prompt", np.arange(10).reshape(2, 5) + 1), ("ragged", [[9], [3]])])
def test_positions_that_are_given(state: str, positions: Any) -> None:
    """Of a first prompt the first of all says where every row begins."""
    inputs, attributes = operands(state, FORMS["rotary"])
    inputs[9] = np.array(positions)
    check(inputs, attributes)


@pytest.mark.parametrize(("own", "form"), [((4, 2), "rotary"), ((3, 1), "window"), ((1, 0), "plain")])
def test_chunks_of_which_rows_have_some(own: tuple[int, ...], form: str) -> None:
    """`query_seqlens` says how many tokens of a chunk are no padding."""
    inputs, attributes = operands("buffer", FORMS[form])
    inputs[:3] = [f32(2, 4, n * SIZE) for n in (HEADS, OWN, OWN)]
    inputs[6], inputs[16] = np.array(10, np.int32), np.array(own, np.int32)
    check(inputs, attributes)


def _left(total: int, room: int, window: int) -> int:
    """How many tokens a cache of a window has."""
    step = room - window + 1
    return total if total <= room else total - step * -(-(total - room) // step)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("own", [None, (3, 1)])
@pytest.mark.parametrize(("room", "window", "last"), [(4, 4, (2, 8)), (6, 3, (7, 3)), (6, 4, (12, 9))])
def test_a_cache_of_a_window(
    room: int, window: int, last: tuple[int, ...], own: tuple[int, ...] | None, bias: bool
) -> None:
    """It has the last tokens of each row from its first place on, whatever their number was before."""
    length = 3 if own else 1
    attributes = {"local_window_size": window, "sliding_window_cache": 1, "do_rotary": 1}
    inputs, attributes = operands("buffer", attributes)
    total = max(last) + 1
    inputs[:3] = [f32(2, length, n * SIZE) for n in (HEADS, OWN, OWN)]
    inputs[3:7] = [*(f32(2, OWN, room, SIZE) for _ in range(2)), np.array(last, np.int32), np.array(total, np.int32)]
    inputs[10] = f32(2, 1, length, total) if bias else None
    inputs[16] = np.array(own, np.int32) if own else None
    proto, feeds = node_model("GroupQueryAttention", inputs, attributes, 3)
    wanted = ort_outputs(proto, feeds)
    for shapes in (None, symbolic(feeds, fixed=(7, 8))):
        y, *present = legato_outputs(proto, feeds, shapes=shapes)
        assert np.isfinite(y).all()
        for row, end in enumerate(last):
            new, left = own[row] if own else 1, _left(end + 1, room, window)
            np.testing.assert_allclose(y[row, :new], wanted[0][row, :new], rtol=1e-4, atol=1e-4)
            for got, want in zip(present, wanted[1:], strict=True):
                assert got.shape == want.shape
                np.testing.assert_allclose(got[row, :, :left], want[row, :, :left], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("state", ["prompt", "step", "buffer"])
@pytest.mark.parametrize("stage", [1, 2])
def test_scores_and_weights_are_results(stage: int, state: str) -> None:
    inputs, attributes = operands(state, {"softcap": 2.0, "qk_output": stage})
    check(inputs, attributes, ["y", "k", "v", "qk"])


def test_queries_and_keys_are_normalised_first() -> None:
    """ONNX Runtime has it for CUDA only: as if they were when given."""
    inputs, attributes = operands("ragged", FORMS["rotary"])
    weights, scaled = (f32(SIZE), f32(SIZE)), list(inputs)
    for n, weight in enumerate(weights):
        given = inputs[n]
        assert given is not None
        heads = given.reshape(*given.shape[:2], -1, SIZE)
        root = np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-6)
        scaled[n] = (heads / root * weight).reshape(given.shape).astype(np.float32)
    wanted = ort_outputs(*node_model("GroupQueryAttention", scaled, attributes, 3))
    inputs[14], inputs[15] = weights
    found = legato_outputs(*node_model("GroupQueryAttention", inputs, attributes, 3))
    compare_tokens(found, wanted, inputs, 1e-4)


def test_16_bit_floats() -> None:
    inputs, attributes = operands("ragged", FORMS["rotary"])
    small = [x.astype(np.float16) if x is not None and x.dtype == np.float32 else x for x in inputs]
    again = [x.astype(np.float32) if x is not None and x.dtype == np.float16 else x for x in small]
    wanted = ort_outputs(*node_model("GroupQueryAttention", again, attributes, 3))
    found = legato_outputs(*node_model("GroupQueryAttention", small, attributes, 3))
    assert {x.dtype for x in found} == {np.dtype("float16")}
    compare_tokens(found, wanted, inputs, HALF)


def test_compiled() -> None:
    """A step of a decoder whose batch and past have any extents."""
    inputs, attributes = operands("ragged", FORMS["packed"])
    proto, feeds = node_model("GroupQueryAttention", inputs, attributes, 3)
    shapes = {"x0": ("batch", 1, None), "x3": ("batch", OWN, "past", SIZE), "x4": ("batch", OWN, "past", SIZE)}
    module = from_onnx(proto, shapes={**shapes, "x5": ("batch",)})
    found = legato.compile(module)(*[feeds[param.name] for param in module["main"].params])
    compare_tokens([np.asarray(x) for x in found], ort_outputs(proto, feeds), inputs, 1e-4)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"k_quant_type": "PER_TENSOR"}, UnsupportedError),
        ({"sliding_window_cache": 1}, ImportModelError),
        ({"do_rotary": 1}, ImportModelError),
        ({"num_heads": 3}, LegatoError),
        ({"kv_num_heads": -1}, ImportModelError),
    ],
)
def test_refusals(change: dict[str, Any], error: type[LegatoError]) -> None:
    inputs, attributes = operands("step", {})
    with pytest.raises(error):
        from_onnx(node_model("GroupQueryAttention", inputs, {**attributes, **change}, 3)[0])


def test_more_columns_of_three_positions_than_a_table_can_have() -> None:
    proto, feeds = node_model("MRotaryEmbedding", [f32(2, 5, 8), ints(0, 20, 3, 2, 5), table(4), table(4)],
                              {"mrope_section": [2**40, 1, 1], "num_heads": 1})  # fmt: skip
    with pytest.raises(ImportModelError, match="mrope_section"):
        from_onnx(proto, shapes=symbolic(feeds))


def test_faults_of_rotary_embedding() -> None:
    for x, columns in ((f32(2, 5, 23), 4), (f32(2, 3, 5, 6), 4)):
        with pytest.raises(LegatoError):
            from_onnx(node_model("RotaryEmbedding", [x, ints(0, 20, 2, 5), table(columns), table(columns)])[0])
