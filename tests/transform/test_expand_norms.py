"""Norms as arithmetic: what the operators give, up to rounding, for every sample of theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.node import post_order
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import Call
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.parser import parse
from legato.ops import table as operators
from legato.ops.norm import group_norm, instance_norm, layer_norm
from legato.ops.rescale import l2_normalize
from legato.transform.canonicalize import Canonicalize
from legato.transform.expand_norms import ExpandNorms

NORMS = [layer_norm, instance_norm, group_norm, l2_normalize]


@pytest.mark.parametrize(("op", "index"), [(op, n) for op in NORMS for n in range(len(op.samples))])
def test_samples(op: Op, index: int) -> None:
    sample, rng, b = op.samples[index], np.random.default_rng(0), Builder()
    args: list[Any] = [a if isinstance(a, np.ndarray) else rng.normal(size=a[0]).astype(a[1]) for a in sample.args]
    params = [b.var(f"x{n}", a.shape, str(a.dtype)) for n, a in enumerate(args)]
    mod = Module.from_expr(b.function(params, b.op(op.name)(*params, **sample.attrs)))
    new = ExpandNorms()(mod)
    assert not any(isinstance(n, Call) and n.op is op for n in post_order([new["main"]]))
    assert infer(new)["main"].ty == mod["main"].ty
    with np.errstate(all="ignore"):
        got, wanted = evaluate(new, args), evaluate(mod, args)
    np.testing.assert_allclose(got, wanted, rtol=max(sample.rtol, 1e-5), atol=1e-6)


@pytest.mark.parametrize(
    "norm", ["nn.layer_norm(%x, %b, W, center=False)", "nn.batch_norm(%x, %b, W, %b, %b, center=False).0"]
)
def test_parameters_are_evaluated_for_their_effects(norm: str) -> None:
    text = (
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2, 2), float32], %r: ref(Tensor[(2,), float32])) {\n'
        f"  let %b = ref_read(%r);\n  {norm.replace('W', '{ ref_write(%r, %b); %b }')}\n}}"
    )
    mod = infer(parse(text, ops=operators()))
    assert Canonicalize(computed=True)(ExpandNorms()(mod)) is mod


def test_simplify_inference() -> None:
    """Batch norms of parameters, and all others, are arithmetic."""
    x = relay.var("x", shape=(2, 4, 3, 3))
    c = [relay.var(n, shape=(4,)) for n in "abcd"]
    y = relay.nn.batch_norm(x, *c)[0]
    y = relay.nn.group_norm(relay.nn.instance_norm(y, c[0], c[1]), c[0], c[1], 2)
    y = relay.nn.l2_normalize(relay.nn.layer_norm(y, c[0], c[1], axis=1), 1e-3, [1])
    mod = relay.transform.InferType()(relay.IRModule.from_expr(relay.nn.dropout(y)))
    new = relay.transform.SimplifyInference()(mod)
    assert not [n for n in relay.analysis.list_op_freqs(new) if "norm" in n or "dropout" in n]
    rng = np.random.default_rng(0)
    args = [np.abs(rng.normal(size=p.checked_type.static_shape())).astype("float32") for p in mod["main"].params]
    runs = [relay.create_executor("debug", m).evaluate()(*args) for m in (mod, new)]
    np.testing.assert_allclose(*runs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtypes", [("float16", "float32"), ("float32", "float64"), ("float16", "float16")])
def test_batch_norms_of_several_dtypes(dtypes: tuple[str, str]) -> None:
    x = relay.var("x", shape=(2, 4), dtype=dtypes[0])
    mod = relay.transform.InferType()(
        relay.IRModule.from_expr(
            relay.nn.batch_norm(x, *(relay.var(n, shape=(4,), dtype=dtypes[1]) for n in "abcd"))[0]
        )
    )
    new = relay.transform.SimplifyInference()(mod)
    rng = np.random.default_rng(0)
    args = [
        np.abs(rng.normal(size=p.checked_type.static_shape())).astype(str(p.checked_type.dtype))
        for p in mod["main"].params
    ]
    runs = [relay.create_executor("debug", m).evaluate()(*args) for m in (mod, new)]
    assert "nn.batch_norm" not in relay.analysis.list_op_freqs(new)
    np.testing.assert_allclose(*runs, rtol=2e-3)
