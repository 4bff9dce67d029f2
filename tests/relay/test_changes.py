"""Programs at other batch sizes and dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError, TypeCheckError
from legato.relay import transform
from legato.relay.frontend import ChangeDatatype

infer = relay.testing.run_infer_type


def test_another_batch_size() -> None:
    mod, _ = relay.testing.mlp.get_workload(1)
    func = mod["main"]
    data = next(p for p in func.params if p.name == "data")
    made = transform.ChangeBatch({data: 0}, batch_size=123)(mod)["main"]
    sizes = {
        str(p.name): [tuple(map(int, f.checked_type.shape)) for f in (p, q)]
        for p, q in zip(func.params, made.params, strict=True)
    }
    assert sizes.pop("data") == [(1, 1, 28, 28), (123, 1, 28, 28)]
    assert all(a == b for a, b in sizes.values())
    assert made.checked_type.ret_type.shape[0] == 123
    assert transform.ChangeBatch({}).info.opt_level == 1


def test_batches_that_cannot_be() -> None:
    x = relay.var("x", shape=(2, 3))
    mod = relay.IRModule.from_expr(relay.reshape(x, (2, 3)))
    with pytest.raises(CompileError, match="%y is no parameter"):
        transform.ChangeBatch({relay.var("y", shape=(2,)): 0})(mod)
    with pytest.raises(CompileError, match="has no dim 2"):
        transform.ChangeBatch({x: 2})(mod)
    with pytest.raises(TypeCheckError, match="reshape"):
        transform.ChangeBatch({x: 0}, 5)(mod)


def test_another_dtype_everywhere() -> None:
    mod, params = relay.testing.mlp.get_workload(1)
    for made in (ChangeDatatype("float32", "float64")(mod), transform.ChangeDatatype("float32", "float64")(mod)):
        assert relay.analysis.all_dtypes(made["main"]) == {"float64"}
    rng = np.random.default_rng(0)
    data = rng.normal(size=(1, 1, 28, 28)).astype("float32")
    wanted = relay.create_executor("debug", mod).evaluate()(data, **params)
    wide = {k: np.asarray(v).astype("float64") for k, v in params.items()}
    got = relay.create_executor("debug", made).evaluate()(data.astype("float64"), **wide)
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=1e-4)


def test_dtypes_in_lets_branches_and_attributes() -> None:
    x, c, v = relay.var("x", shape=(2,)), relay.var("c", shape=(), dtype="bool"), relay.var("v", shape=(2,))
    body = relay.If(c, v, relay.zeros((2,), "float32") + relay.const(1.0))
    func = relay.Function([x, c], relay.Let(v, relay.cast(relay.cast(x, "int32"), "float32"), body))
    made = infer(ChangeDatatype("float32", "float16").visit(func))
    assert relay.analysis.all_dtypes(made) == {"float16", "int32", "bool"}
    free = ChangeDatatype("float32", "float64").visit(relay.exp(x))
    assert str(free.args[0].ty.dtype) == "float64"
    with pytest.raises(TypeCheckError, match="exp"):
        infer(ChangeDatatype("float32", "int32").visit(relay.exp(x)))


def conv(x: relay.Expr, w: relay.Expr, **attrs: object) -> relay.Expr:
    return relay.nn.conv2d(x, w, padding=(1, 1), **attrs)


def same(a: relay.Expr, b: relay.Expr) -> None:
    relay.structure.assert_structural_equal(infer(a), infer(b))


def narrow(x: relay.Expr) -> relay.Expr:
    return relay.cast(x, "int8")


def test_recast() -> None:
    """Relay's own cases: a convolution, two of which one stays, relu behind it, a tuple."""
    x, w, v = relay.var("x", shape=(8, 8, 8, 8)), relay.var("w", shape=(8, 8, 3, 3)), relay.var("v", shape=(8, 8, 3, 3))
    int_conv = relay.cast(conv(narrow(x), narrow(w), out_dtype="int32"), "float32")
    same(transform.recast(relay.Function([x, w], conv(x, w)), "int8", "int32"), relay.Function([x, w], int_conv))
    twice = relay.Function([x, w, v], conv(conv(x, w), v))
    second = relay.cast(conv(narrow(conv(x, w)), narrow(v), out_dtype="int32"), "float32")
    same(transform.recast(twice, "int8", "int32", skip_layers=[0]), relay.Function([x, w, v], second))
    same(transform.recast(twice, "int8", "int32", skip_layers=[-1]), relay.Function([x, w, v], conv(int_conv, v)))
    both = relay.Function([x, w], relay.nn.relu(conv(x, w)))
    relu = relay.cast(relay.nn.relu(narrow(int_conv)), "float32")
    same(transform.recast(both, "int8", "int32", ["nn.conv2d", "nn.relu"]), relay.Function([x, w], relu))
    joined = relay.concatenate([x, x], 1)
    wanted = relay.cast(relay.concatenate([narrow(x), narrow(x)], 1), "float32")
    same(
        relay.Function([x], transform.recast(joined, "int8", "int32", ops=["concatenate"])), relay.Function([x], wanted)
    )
    with pytest.raises(TypeCheckError, match=r"no operator is called 'nn\.conv9d'"):
        transform.recast(joined, "int8", "int32", ops=["nn.conv9d"])
    with pytest.raises(CompileError, match=r"skip_layers are \[1\] of 1 calls"):
        transform.recast(joined, "int8", "int32", ops=["concatenate"], skip_layers=[1])
