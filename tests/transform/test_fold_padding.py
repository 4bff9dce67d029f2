"""Folding of padding over random windows: every bit stays, and what is not the operator's own padding stays, too."""

from __future__ import annotations

from dataclasses import dataclass
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
from legato.ir.scope import post_order
from legato.ops.pad import pad
from legato.transform.fold_padding import FoldPadding
from tests.programs.settings import examples

OUTSIDE = {"conv": {"float32": 0.0, "int8": 0}, "max_pool": {"float32": -np.inf, "int8": -128}}
OTHERS = {"float32": (-0.0, -1e30, 1.0), "int8": (-127, 1)}


@dataclass(frozen=True, slots=True)
class Case:
    """folds: whether the padding becomes the operator's; None: if the last windows are the same."""

    module: Module
    args: list[Any]
    folds: bool | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rank, dtype = draw(st.integers(1, 2)), draw(st.sampled_from(["float32", "int8"]))
    kind = draw(st.sampled_from(["conv", "max_pool", "avg_pool"]))
    channels_last, is_same, batch = draw(st.booleans()), draw(st.integers(0, 4)) > 0, draw(st.integers(0, 7)) // 7

    def order(n: Any, c: Any, spatial: Any) -> list[Any]:
        return [n, *spatial, c] if channels_last else [n, c, *spatial]

    def each(low: int, high: int, count: int = rank) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(count))

    widths = list(zip(each(-1, 2), each(0, 2), strict=True))
    own: dict[str, Any] = {"strides": each(1, 2), "dilation": each(1, 2)}
    own["padding"] = draw(st.sampled_from([(0,) * rank, each(0, 1), each(0, 1, 2 * rank)]))
    layout = "".join(order("N", "C", "HW"[2 - rank :]))
    outside = OUTSIDE.get(kind, OUTSIDE["conv"])[dtype] if is_same else draw(st.sampled_from(OTHERS[dtype]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    shapes = [order(1, 2, each(1, 5)), [3, 2, *each(1, 3)]]
    b = Builder()
    params = [b.var(name, shape, dtype) for name, shape in zip("xw", shapes, strict=True)]
    if kind == "conv":
        own["data_layout"] = layout
    else:
        own |= {"layout": layout, "pool_size": each(1, 3), "ceil_mode": draw(st.booleans())}
        own |= {"count_include_pad": draw(st.booleans())} if kind == "avg_pool" else {}
        params = params[:1]
    try:
        padded = b.op("nn.pad")(params[0], b.constant(outside, dtype), pad_width=order((0, batch), (0, 0), widths))
        made = b.op(f"nn.{kind}{rank}d")(padded, *params[1:], **own)
    except TypeCheckError:
        reject()
    args = [rng.integers(-9, 9, shape).astype(dtype) for shape in shapes[: len(params)]]
    counts = own.get("count_include_pad", True) or not any(own["padding"])
    folds = is_same and not batch and counts and min(before for before, _ in widths) >= 0
    return Case(
        infer(Module.from_expr(b.function(params, made))), args, None if folds and own.get("ceil_mode") else folds
    )


@examples(150)
@given(cases())
def test_every_bit_stays(case: Case) -> None:
    new = FoldPadding()(case.module)
    assert infer(new) is new
    np.testing.assert_array_equal(evaluate(new, case.args), evaluate(case.module, case.args))
    assert FoldPadding()(new) is new
    if case.folds is not None:
        assert any(isinstance(n, Call) and n.op is pad for n in post_order(new["main"])) is not case.folds
