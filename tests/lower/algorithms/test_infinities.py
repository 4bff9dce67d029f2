"""An infinity or NaN reaches the results that read it, and no others: whatever sums are made of, kernels have them
where the interpreter has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import legato
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import Expr
from legato.ir.module import Module
from tests.graphs import leaves

Make = Callable[[Builder, Expr, Expr], Expr]
Case = tuple[str, Make, Sequence[int], Sequence[int]]


def conv(**attrs: Any) -> Make:
    return lambda b, x, w: b.nn.conv2d(x, w, **attrs)


def transposed(**attrs: Any) -> Make:
    return lambda b, x, w: b.nn.conv2d_transpose(x, w, **attrs)


def attention(b: Builder, q: Expr, kv: Expr) -> Expr:
    scores = b.nn.batch_matmul(q, kv)
    return b.nn.batch_matmul(b.nn.softmax(scores, axis=-1), kv, transpose_b=False)


CASES: list[Case] = [
    ("dense", lambda b, x, w: b.nn.dense(x, w), (5, 33), (19, 33)),
    ("one row", lambda b, x, w: b.nn.dense(x, w), (1, 70), (35, 70)),
    ("matmul", lambda b, x, w: b.matmul(x, w), (5, 33), (33, 19)),
    ("batch", lambda b, x, w: b.nn.batch_matmul(x, w), (2, 5, 9), (2, 7, 9)),
    ("conv 1x1", conv(), (1, 5, 4, 6), (9, 5, 1, 1)),
    ("conv 3x3", conv(padding=(1, 1)), (1, 16, 6, 7), (16, 16, 3, 3)),
    ("conv 3x3, strides", conv(padding=(1, 1), strides=(2, 2)), (1, 3, 9, 8), (17, 3, 3, 3)),
    ("conv, groups", conv(padding=(1, 0), groups=2), (1, 6, 5, 5), (8, 3, 2, 2)),
    ("conv, idle taps", conv(padding=(4, 4), dilation=(4, 4)), (1, 2, 4, 4), (3, 2, 3, 3)),
    ("depthwise", conv(padding=(1, 1), groups=18), (1, 18, 5, 6), (18, 1, 3, 3)),
    ("transposed", transposed(), (1, 4, 5, 5), (4, 3, 3, 3)),
    ("transposed, 2", transposed(strides=(2, 2), padding=(1, 1)), (1, 4, 5, 4), (4, 3, 4, 4)),
    ("transposed, 3", transposed(strides=(3, 2), output_padding=(1, 1)), (1, 4, 3, 4), (4, 17, 2, 3)),
    ("transposed, many phases", transposed(strides=(5, 5)), (1, 2, 2, 3), (2, 3, 3, 2)),
    ("attention", attention, (2, 9, 8), (2, 21, 8)),
]


def module(case: Case, weight: np.ndarray[Any, Any] | None) -> Module:
    _, make, data, weights = case
    b = Builder()
    x = b.var("x", tuple(data))
    w = b.var("w", tuple(weights)) if weight is None else b.constant(weight)
    return Module.from_expr(b.function([x] if weight is not None else [x, w], make(b, x, w)))


@pytest.mark.parametrize("is_constant", [False, True], ids=["weights", "constants"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
@pytest.mark.shared(2)
def test_an_infinity_reaches_what_reads_it(case: Case, is_constant: bool) -> None:
    rng = np.random.default_rng(7)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in case[2:])
    programs = {}
    for value in (np.inf, np.nan):
        for n in range(2):
            args = [x.copy(), w.copy()]
            args[n][tuple(rng.integers(0, d) for d in args[n].shape)] = value
            if is_constant and n:
                mod, given = module(case, args[1]), args[:1]
                exe = legato.compile(mod, precision="exact")
            else:
                mod, given = module(case, w if is_constant else None), args[:1] if is_constant else args
                exe = programs.setdefault(is_constant, None) or legato.compile(mod, precision="exact")
                programs[is_constant] = exe
            for got, want in zip(leaves(exe(*given)), leaves(evaluate(mod, given)), strict=True):
                np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
                np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
