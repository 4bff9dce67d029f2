"""Attention of ONNX Runtime's own domain: every form against ONNX Runtime; what it has for CUDA only by other forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato.base.errors import ImportModelError, LegatoError, RunError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.microsoft import Array, compare, node_model
from tests.frontend.onnx.peer import legato_outputs, ort_outputs

RNG = np.random.default_rng(7)
BATCH, LENGTH, HEADS, SIZE, PAST, KEYS = 2, 4, 3, 4, 3, 5
HIDDEN = HEADS * SIZE
BESIDE = {"num_heads": HEADS}


def f32(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def mask(*shape: int) -> Array:
    """Which keys are seen: the first always."""
    found = RNG.integers(0, 2, shape).astype(np.int32)
    found[..., 0] = 1
    return found


def ends(most: int, begins: bool = False) -> Array:
    found = RNG.integers(most - 1, most + 1, BATCH)
    first = RNG.integers(0, 2, BATCH)
    return np.concatenate([found, first] if begins else [found]).astype(np.int32)


THREE = np.array([LENGTH, 2, 0, 3, 5, 0, 3, 5], np.int32)  # lengths, and where rows begin among all tokens


def names(inputs: dict[int, Array | None]) -> dict[int, tuple[str, ...]]:
    """Of inputs of which the first extents must be known to agree: one name."""
    own = {n: a for n, a in inputs.items() if a is not None}
    return {n: ("batch", *(f"d{n}_{axis}" for axis in range(1, a.ndim))) for n, a in own.items()}


def check(operator: str, inputs: list[Array | None], attributes: dict[str, Any], outputs: Any = 1, **more: Any) -> None:
    """Masks of rank 1 must be known to have a number, or two, for each row."""
    place = {"Attention": 3, "MultiHeadAttention": 4}.get(operator, 3)
    given = inputs[place] if len(inputs) > place else None
    is_known = given is None or given.ndim > 1 or len(given) == BATCH
    same = names({0: inputs[0], place: given}) if given is not None and given.ndim == 1 else None
    compare(operator, inputs, {**BESIDE, **attributes}, outputs, names=same, named=is_known, **more)


@pytest.mark.parametrize("past", [0, PAST])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("form", ["none", "ends", "ends and begins", "three", "rows", "all", "bias", "rows and bias"])
def test_attention(form: str, causal: int, past: int) -> None:
    total = LENGTH + past
    if past and "bias" in form:
        return  # ONNX Runtime has not both
    masks = {"ends": ends(total), "ends and begins": ends(total, begins=True), "three": THREE,
             "rows": mask(BATCH, total), "rows and bias": mask(BATCH, total),
             "all": mask(BATCH, LENGTH, total)}  # fmt: skip
    added = f32(*((1, HEADS) if causal else (BATCH, 1)), LENGTH, total) if "bias" in form else None
    before = f32(2, BATCH, HEADS, past, SIZE) if past else None
    inputs = [f32(BATCH, LENGTH, 8), f32(8, 3 * HIDDEN), f32(3 * HIDDEN), masks.get(form), before, added]
    check("Attention", inputs, {"unidirectional": causal}, 2)


@pytest.mark.parametrize(
    ("bias", "width", "attributes"),
    [
        (False, 3 * HIDDEN, {}),
        (True, 3 * HIDDEN, {"scale": 0.3}),
        (True, 2 * HIDDEN + 6, {"qkv_hidden_sizes": [HIDDEN, HIDDEN, 6]}),
        (True, 3 * HIDDEN, {"mask_filter_value": -3.0}),
    ],
)
def test_attention_by_its_attributes(bias: bool, width: int, attributes: dict[str, Any]) -> None:
    kept = np.array([[1, 0, 0, 1], [1, 1, 0, 0]], np.int32) if "mask_filter_value" in attributes else None
    check("Attention", [f32(BATCH, LENGTH, 8), f32(8, width), f32(width) if bias else None, kept], attributes)


def test_keys_and_values_of_different_sizes_are_no_result() -> None:
    inputs, sizes = [f32(BATCH, LENGTH, 8), f32(8, 30)], {"qkv_hidden_sizes": [HIDDEN, HIDDEN, 6]}
    check("Attention", inputs, sizes, ["y", ""])
    with pytest.raises(UnsupportedError, match="output"):
        from_onnx(node_model("Attention", inputs, {**BESIDE, **sizes}, 2)[0])


def test_attention_to_a_mask_of_all_pairs() -> None:
    """A mask of rank 4, of the longest sequence, is a triangle of which the rows of the queries are taken."""
    inputs = [f32(BATCH, LENGTH, 8), f32(8, 3 * HIDDEN), f32(3 * HIDDEN), None, f32(2, BATCH, HEADS, PAST, SIZE)]
    wanted = ort_outputs(*node_model("Attention", inputs, {**BESIDE, "unidirectional": 1}, 2))
    inputs[3] = np.broadcast_to(np.tril(np.ones((9, 9), np.int32)), (BATCH, 1, 9, 9)).copy()
    compare("Attention", inputs, BESIDE, 2, wanted=wanted, tolerance=1e-3)


def test_attention_whose_past_is_a_buffer() -> None:
    inputs = [f32(BATCH, 1, 8), f32(8, 3 * HIDDEN), f32(3 * HIDDEN), None, f32(2, BATCH, HEADS, 8, SIZE), None,
              np.array([3], np.int32)]  # fmt: skip
    proto, feeds = node_model("Attention", inputs, {**BESIDE, "past_present_share_buffer": 1}, 2)
    y, present = legato_outputs(proto, feeds)
    plain = [*inputs[:4], inputs[4][:, :, :, :3], None]
    wanted, grown = ort_outputs(*node_model("Attention", plain, BESIDE, 2))
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(present[:, :, :, :4], grown, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(present[:, :, :, 4:], inputs[4][:, :, :, 4:])


SHORT = f32(BATCH, LENGTH, HIDDEN)
OLD = (f32(BATCH, HEADS, PAST, SIZE), f32(BATCH, HEADS, PAST, SIZE))
HELD = (f32(BATCH, HEADS, KEYS, SIZE), f32(BATCH, HEADS, KEYS, SIZE))
SCORES = ["y", "", "", "qk"]
MULTI: list[Any] = [
    ((), {}),
    ((), {}, 3),
    (("bias",), {}),
    (("narrow",), {}),
    (("narrow", "bias"), {"scale": 0.2}),
    *((("mask",), {}, 1, m) for m in (ends(KEYS), mask(BATCH, KEYS), mask(BATCH, LENGTH, KEYS), THREE)),
    *((("mask",), {"mask_filter_value": -2.0}, 1, m) for m in (ends(KEYS), mask(BATCH, KEYS))),
    (("added",), {}, 1, f32(1, HEADS, LENGTH, KEYS)),
    (("added",), {}, 1, f32(BATCH, 1, LENGTH, KEYS)),
    (("self",), {"unidirectional": 1}, SCORES),
    (("self", "mask"), {"unidirectional": 1}, SCORES, mask(BATCH, LENGTH)),
    (("self", "past"), {}, 3),
    (("self", "past", "bias", "mask"), {"unidirectional": 1}, 3, mask(BATCH, LENGTH + PAST)),
    (("held",), {}),
    (("held", "bias"), {}),
]


@pytest.mark.parametrize("case", MULTI, ids=lambda case: "-".join(case[0]) or "plain")
def test_multi_head_attention(case: Any) -> None:
    what, attributes, *rest = case
    values = HIDDEN // 2 if "narrow" in what else HIDDEN
    q, k, v = SHORT, f32(BATCH, KEYS, HIDDEN), f32(BATCH, KEYS, values)
    if "self" in what:
        k, v = f32(BATCH, LENGTH, HIDDEN), f32(BATCH, LENGTH, HIDDEN)
    if "held" in what:
        k, v = HELD
    more = rest[1] if len(rest) > 1 else None
    inputs = [q, k, v, f32(2 * HIDDEN + values) if "bias" in what else None, more if "mask" in what else None,
              more if "added" in what else None, *(OLD if "past" in what else (None, None))]  # fmt: skip
    check("MultiHeadAttention", inputs, attributes, rest[0] if rest else 1, half=bool(rest[:1] != [SCORES]))


@pytest.mark.parametrize("count", [2, 3])
def test_queries_keys_and_values_in_one_tensor(count: int) -> None:
    """ONNX Runtime has these for CUDA only."""
    q, k, v, bias = SHORT, f32(BATCH, LENGTH, HIDDEN), f32(BATCH, LENGTH, HIDDEN), f32(3 * HIDDEN)
    wanted = ort_outputs(*node_model("MultiHeadAttention", [q, k, v, bias], BESIDE))
    parts = [x.reshape(BATCH, LENGTH, HEADS, SIZE) for x in (q, k, v)][3 - count :]
    packed = np.stack(parts, axis=3)
    inputs = [packed, None, None, bias] if count == 3 else [q, packed, None, bias]
    compare("MultiHeadAttention", inputs, BESIDE, wanted=wanted)


ONE = f32(BATCH, 1, HIDDEN)
BUFFERS = (f32(BATCH, HEADS, 8, SIZE), f32(BATCH, HEADS, 8, SIZE))
SHARED = {"past_present_share_buffer": 1}
AT = np.array([3], np.int32)


@pytest.mark.parametrize(
    ("inputs", "attributes", "outputs"),
    [
        ([ONE, *HELD], {}, 1),
        ([ONE, *HELD, mask(BATCH, KEYS)], {}, 1),
        ([ONE, *HELD, *[None] * 7, f32(3 * HIDDEN)], {}, 1),
        ([ONE, *HELD], {"output_qk": 1}, SCORES),
        ([ONE, f32(*ONE.shape), f32(*ONE.shape), None, None, *BUFFERS, AT], SHARED, 3),
        ([ONE, f32(*ONE.shape), f32(*ONE.shape), mask(BATCH, 4), f32(1, HEADS, 1, 4), *BUFFERS, AT, None, None,
          f32(3 * HIDDEN)], SHARED, 3),
    ],
)  # fmt: skip
def test_decoder_masked_multi_head_attention(
    inputs: list[Array | None], attributes: dict[str, Any], outputs: Any
) -> None:
    check("DecoderMaskedMultiHeadAttention", inputs, attributes, outputs, half=outputs != SCORES)


def test_decoding_with_a_past_that_grows() -> None:
    """ONNX Runtime has it for CUDA only: as its other operator has it. So queries, keys and values in one tensor."""
    k, v, old = f32(*ONE.shape), f32(*ONE.shape), OLD
    wanted = ort_outputs(*node_model("MultiHeadAttention", [ONE, k, v, None, None, None, *old], BESIDE, 3))
    compare("DecoderMaskedMultiHeadAttention", [ONE, k, v, None, None, *old], BESIDE, 3, wanted=wanted)
    whole = np.concatenate([ONE, k, v], axis=2)
    compare("DecoderMaskedMultiHeadAttention", [whole, None, None, None, None, *old], BESIDE, 3, wanted=wanted)


def test_multi_head_attention_whose_past_is_a_buffer() -> None:
    inputs = [ONE, f32(*ONE.shape), f32(*ONE.shape), None, None, None, *BUFFERS, AT]
    compare("MultiHeadAttention", inputs, BESIDE, 3)


@pytest.mark.parametrize("length", [-1, 8, 9])
def test_a_buffer_without_room_ends_a_call(length: int) -> None:
    inputs = [ONE, ONE, ONE, None, None, None, *BUFFERS, np.array([length], np.int32)]
    with pytest.raises(RunError):
        legato_outputs(*node_model("MultiHeadAttention", inputs, BESIDE, 3))


def test_offsets_that_there_are_not_are_no_places() -> None:
    """Tokens at places outside of all rows are dropped."""
    tokens, offsets = f32(5, 8), OFFSETS.copy()
    offsets[0, 3] = 400
    (found,) = legato_outputs(*node_model("RestorePadding", [tokens, offsets]))
    want = np.zeros((8, 8), np.float32)
    want[[0, 1, 2, 5]] = tokens[[0, 1, 2, 4]]
    np.testing.assert_array_equal(found.reshape(8, 8), want)


COUNTS = np.array([3, 2], np.int32)
OFFSETS, BEGINS = np.array([[0, 1, 2, 4], [5, 3, 6, 7]], np.int32), np.array([0, 3, 5], np.int32)
PLACES = OFFSETS.ravel()[:5]


def test_rows_without_padding() -> None:
    x, weights, bias = f32(BATCH, LENGTH, 8), f32(8, 3 * HIDDEN), f32(3 * HIDDEN)
    kept = (np.arange(LENGTH) < COUNTS[:, None]).astype(np.int32)
    (wanted,) = ort_outputs(*node_model("Attention", [x, weights, bias, kept], BESIDE))
    wanted, tokens = wanted.reshape(-1, HIDDEN)[PLACES], x.reshape(-1, 8)[PLACES]
    compare("RemovePadding", [x, COUNTS], outputs=4, wanted=[tokens, OFFSETS, BEGINS, np.array([3], np.int32)])
    compare("RestorePadding", [tokens, OFFSETS], wanted=[np.where(kept[..., None], x, 0)])
    compare("PackedAttention", [tokens, weights, bias, OFFSETS, BEGINS], BESIDE, wanted=[wanted])
    z = tokens @ weights
    each = [np.ascontiguousarray(part) for part in np.split(z, 3, axis=1)]
    compare("PackedMultiHeadAttention", [*each, bias, OFFSETS, BEGINS], BESIDE, wanted=[wanted])
    whole = np.ascontiguousarray((z + bias).reshape(5, 3, HEADS, SIZE).transpose(0, 2, 1, 3))
    compare("PackedMultiHeadAttention", [whole, None, None, None, OFFSETS, BEGINS], BESIDE, wanted=[wanted])


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("MultiHeadAttention", [SHORT, f32(BATCH, LENGTH, HIDDEN), SHORT, None, None, None, *OLD], {}),
        ("DecoderMaskedMultiHeadAttention", [ONE, ONE, ONE, None, None, *BUFFERS, AT], SHARED),
    ],
)
def test_compiled(operator: str, inputs: list[Array | None], attributes: dict[str, Any]) -> None:
    """For any batch, and any length of the queries and the past."""
    new = ("batch", "length" if operator == "MultiHeadAttention" else 1, HIDDEN)
    old = ("batch", HEADS, "past", SIZE)
    dims = {n: {3: new, 4: old}.get(x.ndim, (1,)) for n, x in enumerate(inputs) if x is not None}
    compare(operator, inputs, {**BESIDE, **attributes}, 3, names=dims, compiled=True, half=False)


def test_a_row_that_sees_no_key_sees_all() -> None:
    """What is masked is lowered, not taken away."""
    check("Attention", [f32(BATCH, LENGTH, 8), f32(8, 3 * HIDDEN), None, np.zeros((BATCH, LENGTH), np.int32)], {},
          tolerance=2e-3)  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "error"),
    [
        ("Attention", [SHORT, f32(HIDDEN, 35)], {}, ImportModelError),
        ("Attention", [SHORT, f32(HIDDEN, 36)], {"do_rotary": 1}, UnsupportedError),
        ("Attention", [SHORT, f32(HIDDEN, 36), None, mask(BATCH, 7)], {}, ImportModelError),
        ("Attention", [SHORT, f32(HIDDEN, 36), None, mask(7)], {}, ImportModelError),
        ("MultiHeadAttention", [SHORT], {}, ImportModelError),
        ("MultiHeadAttention", [SHORT, SHORT], {}, ImportModelError),
        ("MultiHeadAttention", [SHORT, SHORT, SHORT, f32(7)], {}, LegatoError),
        ("MultiHeadAttention", [SHORT, SHORT, SHORT, None, None, None, OLD[0]], {}, ImportModelError),
        ("MultiHeadAttention", [SHORT, SHORT, SHORT, *[None] * 6, mask(BATCH, 1, 8)], {}, UnsupportedError),
        ("PackedMultiHeadAttention", [f32(5, HIDDEN), f32(5, HIDDEN), f32(5, HIDDEN)], {}, ImportModelError),
    ],
)
def test_faults(operator: str, inputs: list[Array], attributes: dict[str, Any], error: type[LegatoError]) -> None:
    with pytest.raises(error):
        from_onnx(node_model(operator, inputs, {**BESIDE, **attributes})[0])
