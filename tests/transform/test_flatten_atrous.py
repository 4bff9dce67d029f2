"""Convolutions by way of the batch, over random blocks and windows of integers: every bit stays."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, reject
from hypothesis import strategies as st

from legato.base.errors import TypeCheckError
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call
from legato.ir.module import Module
from legato.transform.flatten_atrous import FlattenAtrous
from tests.programs.settings import examples


@st.composite
def cases(draw: st.DrawFn) -> tuple[Module, list[Any], bool]:
    """A program, its arguments, and whether it becomes one dilated convolution."""
    rank, channels_last = draw(st.integers(1, 2)), draw(st.booleans())

    def each(low: int, high: int) -> list[int]:
        return [draw(st.integers(low, high)) for _ in range(rank)]

    letters = "HW"[2 - rank :]
    layout = f"N{letters}C" if channels_last else f"NC{letters}"
    block, extents = each(1, 3), each(1, 7)
    pads = [(before, -(before + n) % b + b * more) for before, n, b, more in
            zip(each(0, 3), extents, block, each(0, 1), strict=True)]  # fmt: skip
    crops = list(zip(each(0, 2), each(0, 2), strict=True))
    own, value = each(0, 1), draw(st.sampled_from([0.0, 0.0, 0.0, 1.0, -0.0]))
    conv = {"padding": own, "dilation": each(1, 2), "strides": [draw(st.sampled_from([1, 1, 2]))] * rank}
    shape = [2, *extents, 3] if channels_last else [2, 3, *extents]
    one = [] if channels_last else [(0, 0)]
    sides = [1] * len(one) + block
    b = Builder()
    x, w = b.var("x", shape), b.var("w", [4, 3, *each(1, 3)])
    try:
        batch = b.nn.space_to_batch_nd(x, block_shape=sides, paddings=[*one, *pads], pad_value=value)
        made = b.op(f"nn.conv{rank}d")(batch, w, data_layout=layout, **conv)
        end = b.nn.batch_to_space_nd(made, block_shape=sides, crops=[*one, *crops])
    except TypeCheckError:
        reject()
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    args = [rng.integers(-9, 9, v.ty.static_shape()).astype("float32") for v in (x, w)]  # type: ignore[union-attr]
    left = [before + n * s - cut for (before, _), n, s, (cut, _) in zip(pads, own, block, crops, strict=True)]
    left += [after + n * s - cut for (_, after), n, s, (_, cut) in zip(pads, own, block, crops, strict=True)]
    is_whole = min(left) >= 0 and conv["strides"][0] == 1 and value == 0 and not np.signbit(value)
    is_whole &= 0 not in end.ty.static_shape()
    return infer(Module.from_expr(b.function([x, w], end))), args, is_whole


@examples(80)
@given(cases())
def test_every_bit_stays(case: tuple[Module, list[Any], bool]) -> None:
    mod, args, is_whole = case
    new = FlattenAtrous()(mod)
    assert infer(new) is new
    assert (new is not mod) == is_whole
    if is_whole:
        body = new["main"].body  # type: ignore[union-attr]
        assert isinstance(body, Call)
        assert not isinstance(body.args[0], Call)
    np.testing.assert_array_equal(evaluate(new, args), evaluate(mod, args))
