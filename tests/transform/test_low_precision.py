"""What the pass asks of records, and what it leaves alone. tests/lower/test_low_precision.py runs programs."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Function
from legato.ir.module import Module
from legato.ir.op import Narrow
from legato.ir.visit import nodes
from legato.ops import table
from legato.ops.binary import multiply
from legato.transform.low_precision import LowPrecision


def test_contractions_name_the_dtype_of_their_sums() -> None:
    contracting = [op for op in table().values() if op.narrow is Narrow.CONTRACTS or callable(op.narrow)]
    assert {"nn.dense", "nn.conv2d", "nn.batch_matmul", "matmul"} <= {op.name for op in contracting}
    for op in contracting:
        assert op.attrs is not None
        assert "out_dtype" in {f.name for f in fields(op.attrs)}


def test_a_record_without_it_is_told() -> None:
    b = Builder()
    x = b.var("x", (2, 2))
    own = replace(multiply, name="my.product", narrow=Narrow.CONTRACTS)
    mod = Module.from_expr(b.function([x], b.call(own, x, x)))
    with pytest.raises(CompileError) as caught:
        LowPrecision()(mod)
    assert str(caught.value) == (
        "error: operator my.product is recorded as a contraction of narrow operands but has no attribute out_dtype\n"
        "  hint: add the attribute: it names the dtype in which sums are formed"
    )


def test_nothing_to_narrow_is_the_same_module() -> None:
    b = Builder()
    x = b.var("x", (2, 3))
    mod = Module.from_expr(b.function([x], b.nn.softmax(b.exp(x))))
    assert LowPrecision()(mod) is mod


def test_shared_weights_are_rounded_once() -> None:
    b = Builder()
    x, w = b.var("x", (2, 3)), b.constant(np.eye(3, dtype=np.float32))
    mod = LowPrecision()(Module.from_expr(b.function([x], b.nn.dense(b.tanh(b.nn.dense(x, w)), w))))
    main = mod["main"]
    assert isinstance(main, Function)
    found = {id(n): n for n in nodes(main) if isinstance(n, Constant)}
    assert [n.data.dtype.name for n in found.values()] == ["bfloat16"]


def test_conversions_back_and_forth_vanish() -> None:
    mod = legato.parse(
        """#[version = "0.0.5"]
        def @main(%x: Tensor[(2, 3), bfloat16], %w: Tensor[(4, 3), float32]) {
          nn.dense(cast(%x, dtype="float32"), %w)
        }"""
    )
    main = LowPrecision()(mod)["main"]
    assert isinstance(main, Function)
    casts = [n for n in nodes(main) if isinstance(n, Call) and getattr(n.op, "name", "") == "cast"]
    assert len(casts) == 1  # of the weights
