"""Operators as tensor programs compute what the operators do."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.infer.infer import infer
from legato.interp import evaluate, evaluate_op
from legato.ir.attrs import make_attrs
from legato.ir.expr import Call, Function
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.parser import parse
from legato.ir.scope import post_order
from legato.ops import table as operators
from legato.pipelines import DEFAULT
from legato.tir.stmt import Func
from legato.transform.legalize import Legalize
from legato.transform.pass_ import run
from tests.ops.test_ops import OPS, arguments, assert_close, call, leaves

COMPUTED = [op for op in OPS if op.compute is not None and not op.stateful]


@pytest.mark.parametrize("op", COMPUTED, ids=lambda op: op.name)
def test_each_operator(op: Op) -> None:
    sample = op.samples[0]
    values = arguments(op, sample)
    params, body = call(op, values, sample)
    mod = Legalize()(infer(Module.from_expr(Function(tuple(params), body))))
    assert any(isinstance(f, Func) for f in mod.functions.values())
    wanted = evaluate_op(op, values, make_attrs(op, sample.attrs))
    for g, w in zip(leaves(evaluate(mod, values)), leaves(wanted), strict=True):
        assert_close(np.asarray(g), np.asarray(w), sample)


TEXT = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32], %b: Tensor[(4,), float32]) {
  %0 = nn.relu(nn.bias_add(nn.conv2d(%x, %w, padding=[1, 1]), %b));
  %1 = nn.max_pool2d(%0, pool_size=[2, 2], strides=[2, 2]);
  %2 = split(nn.softmax(nn.batch_flatten(%1)), indices_or_sections=1, axis=1);
  (%2.0, sum(%1, axis=[2, 3]))
}
"""


def test_compiled_results_are_those_of_before() -> None:
    mod = infer(parse(TEXT, ops=operators()))
    fused = run(mod, DEFAULT)
    luck = np.random.default_rng(0)
    args = [luck.standard_normal(s, np.float32) for s in ((2, 3, 8, 8), (4, 3, 3, 3), 4)]
    wanted = leaves(legato.compile(mod)(*args))
    for new in (Legalize()(mod), Legalize()(fused), Legalize(groups=True)(fused)):
        for g, w in zip(leaves(legato.compile(new)(*args)), wanted, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6)


def test_the_same_value_several_times() -> None:
    text = "def @main(%x: Tensor[(2,), float32]) { stack((%x, %x, %x), axis=0) }"
    mod = Legalize()(infer(parse(f'#[version = "0.0.5"]\n{text}', ops=operators())))
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(legato.compile(mod)(x), np.ones((3, 2)))


def test_what_stays() -> None:
    mod = infer(parse(TEXT, ops=operators()))
    kept = Legalize(skip=frozenset({"nn.conv2d", "split"}))(mod)
    main = kept["main"]
    called = [n.op.name for n in post_order(main) if isinstance(n, Call) and isinstance(n.op, Op)]
    assert sorted(set(called)) == ["call_tir", "nn.conv2d", "split"]
    assert Legalize(groups=True)(mod) is mod
