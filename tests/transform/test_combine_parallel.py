"""Combining products and convolutions of the same data, over random branches of integers, whose sums are exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.parser import parse
from legato.ir.scope import post_order
from legato.ops import table as operators
from legato.transform._parallel import CombineParallel
from legato.transform.combine_batch_matmul import CombineBatchMatmul
from legato.transform.combine_conv2d import CombineConv2D
from legato.transform.combine_dense import CombineDense
from legato.transform.combine_matmul import CombineMatmul
from legato.transform.combine_op_batch import CombineOpBatch
from tests.graphs import leaves
from tests.programs.settings import examples

CASES: list[tuple[CombineParallel, str, tuple[int, ...], Callable[[int], tuple[int, ...]]]] = [
    (CombineDense(2), "nn.dense", (5, 4), lambda width: (width, 4)),
    (CombineOpBatch(2), "nn.dense", (5, 4), lambda width: (width, 4)),
    (CombineOpBatch(2, "multiply", "multiply"), "multiply", (5, 4), lambda width: (1 if width == 1 else 5, 4)),
    (CombineBatchMatmul(2), "nn.batch_matmul", (2, 5, 4), lambda width: (2, width, 4)),
    (CombineMatmul(2), "matmul", (2, 5, 4), lambda width: (4, width)),
    (CombineConv2D(2), "nn.conv2d", (2, 4, 5, 3), lambda width: (width, 4, 1, 2)),
]


def count(mod: Module, name: str) -> int:
    nodes = (n for _, f in mod.graph_functions() for n in post_order(f))
    return Counter(n.op.name for n in nodes if isinstance(n, Call) and isinstance(n.op, Op))[name]


@st.composite
def branches(draw: st.DrawFn) -> tuple[CombineParallel, str, Module, list[Any]]:
    """Calls of an operator on two data, with weights that are given, or computed from earlier results."""
    p, name, data_shape, weight_shape = draw(st.sampled_from(CASES))
    b, rng = Builder(), np.random.default_rng(draw(st.integers(0, 99)))
    data = [b.var(n, data_shape) for n in "xy"]
    params, results = list(data), list[Expr]()
    for n in range(draw(st.integers(2, 5))):
        weight: Expr = b.var(f"w{n}", weight_shape(draw(st.integers(1, 3))))
        params.append(weight)  # type: ignore[arg-type]  # a variable
        if results and draw(st.booleans()):
            weight = b.add(weight, b.op("max")(draw(st.sampled_from(results))))
        made = b.call(name, draw(st.sampled_from(data)), weight)
        for kind in draw(st.lists(st.sampled_from(["relu", "add", "multiply"]), max_size=3)):
            if kind == "relu":
                made = b.nn.relu(made)
                continue
            own = made.ty.shape[1:] if name == "nn.conv2d" else made.ty.shape[-1:]  # type: ignore[union-attr]
            beside = b.var(f"b{len(params)}", draw(st.sampled_from([own, own, (1,) * len(own), ()])))
            params.append(beside)
            made = b.call(kind, *draw(st.permutations([made, beside])))
        results.append(made)
    args = [rng.integers(-3, 3, p.ty.static_shape()).astype("float32") for p in params]  # type: ignore[union-attr]
    return p, name, infer(Module.from_expr(b.function(params, b.tuple_(results)))), args


@examples(60)
@given(branches())
def test_the_meaning_stays(case: tuple[CombineParallel, str, Module, list[Any]]) -> None:
    p, name, mod, args = case
    new = p(mod)
    assert infer(new) is new
    for got, want in zip(leaves(evaluate(new, args)), leaves(evaluate(mod, args)), strict=True):
        np.testing.assert_array_equal(got, want)
    assert p(new) is new
    assert count(new, name) <= count(mod, name)


def module(body: str) -> Module:
    weights = ", ".join(f"%w{n}: Tensor[(4, 4), float32]" for n in range(3))
    text = f'#[version = "0.0.5"]\ndef @main(%c: bool, %x: Tensor[(4, 4), float32], {weights}) {{ {body} }}'
    return infer(parse(text, ops=operators()))


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("(nn.dense(%x, %w0), nn.dense(%x, %w1), nn.dense(%x, %w2))", 1),
        ("let %a = nn.dense(%x, %w0); let %b = nn.dense(%x, %w1); (%a, %b, nn.dense(%x, %w2))", 1),
        ("(nn.dense(%x, %w0), nn.dense(%x, %w1))", 2),
        ("%0 = nn.dense(%x, %w0); (%0, nn.dense(%x, %w1), nn.dense(%0, %w2))", 3),
        ("(nn.dense(%x, %w0), nn.dense(%x, %w1), if (%c) { nn.dense(%x, %w2) } else { %x })", 3),
        ("let %r = ref(%w2); (nn.dense(%x, %w0), nn.dense(%x, %w1), nn.dense(%x, ref_read(%r)))", 1),
    ],
)
@pytest.mark.parametrize("to_batch", [False, True])
def test_what_is_combined(body: str, left: int, to_batch: bool) -> None:
    old = module(body)
    new = (CombineOpBatch(3) if to_batch else CombineDense(3))(old)
    assert (new is old) == (left != 1)
    assert count(new, "nn.dense") == (0 if to_batch and left == 1 else left)
    assert count(new, "nn.batch_matmul") == (to_batch and left == 1)
    rng = np.random.default_rng(0)
    args = [np.bool_(True), *(rng.integers(-3, 3, (4, 4)).astype("float32") for _ in range(4))]
    for got, want in zip(leaves(evaluate(new, args)), leaves(evaluate(old, args)), strict=True):
        np.testing.assert_array_equal(got, want)


def test_attributes_differ_by_the_sign_of_zero() -> None:
    calls = ", ".join(f"clip(nn.dense(%x, %w{n}), a_min={low}, a_max=9f)" for n, low in enumerate(("0f", "-0f", "0f")))
    for text, left in ((calls, 3), (calls.replace("-0f", "0f"), 1)):
        assert count(CombineDense(3)(module(f"({text})")), "clip") == left


def test_long_chains_of_branches() -> None:
    b = Builder()
    x, w = b.var("x", (2, 4)), b.var("w", (4, 4))
    value: Expr = x
    for _ in range(1000):
        value = b.add(b.nn.dense(value, w), b.nn.dense(value, w))
    new = CombineDense(2)(infer(Module.from_expr(b.function([x, w], value))))
    assert count(new, "nn.dense") == 1000
    passes: list[CombineParallel] = [CombineOpBatch(2), CombineBatchMatmul(2)]
    for p in passes:
        new = p(new)
    assert isinstance(new["main"], Function)
