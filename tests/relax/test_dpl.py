"""Patterns under Relax's names: through variables, and rewriting of functions in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from legato import relax
from legato.base.errors import CompileError, UnsupportedError
from legato.interp import evaluate
from legato.ir.expr import Call, Expr, Function, GlobalVar, Var
from legato.ir.module import Module
from legato.relax import dpl
from legato.relax.dpl import DFPattern, is_const, is_op, is_tuple, is_var, rewrite_call, wildcard

m = relax.Var("m", relax.TensorType((3, 4), "float32"))
n = relax.Var("n", relax.TensorType((4, 5), "float32"))
image = relax.Var("image", relax.TensorType((1, 3, 8, 8), "float32"))
row = relax.Var("row", relax.TensorType((1, 1, 8), "float32"))
weight = relax.Var("weight", relax.TensorType((3, 3, 1, 1), "float32"))
scale = relax.Var("scale", relax.TensorType((4,), "float32"))
op = relax.op


def function(extra: bool = False) -> Function:
    """relu(m @ n) in a dataflow block; `extra`: with the product as a result, too."""
    bb = relax.BlockBuilder()
    with bb.function("main", [m, n]):
        with bb.dataflow():
            product = bb.emit(op.matmul(m, n))
            result = bb.emit_output(op.nn.relu(product))
            kept = bb.emit_output(op.exp(product)) if extra else result
        bb.emit_func_output(relax.Tuple([result, kept]) if extra else result)
    return bb.get()["main"]  # type: ignore[no-any-return]


CALLS: dict[str, Callable[[], Any]] = {
    "add": lambda: op.add(m, m),
    "nn.relu": lambda: op.nn.relu(m),
    "matmul": lambda: op.matmul(m, n),
    "sum": lambda: op.sum(m, axis=1),
    "mean": lambda: op.mean(m),
    "permute_dims": lambda: op.permute_dims(m),
    "reshape": lambda: op.reshape(m, (12,)),
    "concat": lambda: op.concat([m, m]),
    "stack": lambda: op.stack([m, m]),
    "astype": lambda: op.astype(m, "int32"),
    "split": lambda: op.split(m, 2, 1),
    "strided_slice": lambda: op.strided_slice(m, [0], [0], [2]),
    "take": lambda: op.take(m, relax.const(1), axis=0),
    "flip": lambda: op.flip(m, 0),
    "repeat": lambda: op.repeat(m, 2, 0),
    "tile": lambda: op.tile(m, (2, 2)),
    "clip": lambda: op.clip(m, 0, 1),
    "cumsum": lambda: op.cumsum(m, 0),
    "topk": lambda: op.topk(m),
    "broadcast_to": lambda: op.broadcast_to(m, (2, 3, 4)),
    "expand_dims": lambda: op.expand_dims(m, 0),
    "squeeze": lambda: op.squeeze(op.expand_dims(m, 0)),
    "nn.conv2d": lambda: op.nn.conv2d(image, weight),
    "nn.conv2d_transpose": lambda: op.nn.conv2d_transpose(image, weight),
    "nn.max_pool2d": lambda: op.nn.max_pool2d(image),
    "nn.avg_pool2d": lambda: op.nn.avg_pool2d(image),
    "nn.adaptive_avg_pool2d": lambda: op.nn.adaptive_avg_pool2d(image, (1, 1)),
    "nn.softmax": lambda: op.nn.softmax(m),
    "nn.log_softmax": lambda: op.nn.log_softmax(m),
    "nn.layer_norm": lambda: op.nn.layer_norm(m, scale, scale, axes=[-1]),
    "nn.rms_norm": lambda: op.nn.rms_norm(m, scale, axes=[-1]),
    "nn.prelu": lambda: op.nn.prelu(m, scale),
    "nn.leakyrelu": lambda: op.nn.leakyrelu(m),
    "nn.conv1d_transpose": lambda: op.nn.conv1d_transpose(row, row),
    "sort": lambda: op.sort(m),
    "zeros": lambda: op.zeros((2,), "float32"),
    "dynamic_strided_slice": lambda: op.dynamic_strided_slice(m, *(relax.const([n, n]) for n in (0, 1, 1))),
    "tensor_to_shape": lambda: op.tensor_to_shape(relax.const([2, 3])),
}


@pytest.mark.parametrize("name", CALLS)
def test_operators(name: str) -> None:
    assert is_op(f"relax.{name}")(None).match(CALLS[name]())


def test_other_operators() -> None:
    assert is_op("nn.relu")(None).match(op.nn.relu(m))
    for name in ("linear", "nn.pad", "nn.gelu", "nn.gelu_tanh"):  # nn.pad has another operand, gelus are one operator
        with pytest.raises(UnsupportedError, match=rf"relax\.{name} is not one operator of the language"):
            is_op(f"relax.{name}")
    with pytest.raises(CompileError, match=r"there is no operator relax\.nothing"):
        is_op("relax.nothing")


def test_matching_through_variables() -> None:
    func = function()
    values = relax.analysis.get_var2val(func)
    relu = next(v for v in values.values() if isinstance(v, Call) and v.op is op.nn.relu(m).op)
    x = wildcard()
    pattern = is_op("relax.nn.relu")(is_op("relax.matmul")(x, is_var("n")))
    assert not pattern.match(relu)
    found = pattern.match(relu, values)
    assert found
    assert found[x] == m
    assert is_tuple([is_const(), wildcard().has_dtype("float32").has_shape((3, 4))]).match(
        relax.Tuple([relax.const(1), m])
    )


def test_a_recursive_function_is_not_looked_into() -> None:
    f = Var("f")
    assert is_op("relax.exp")(is_var("f")).match(Call(op.exp(m).op, (f,)), {f: Function((), Call(f, ()))})


@pytest.mark.parametrize("extra", [False, True])
def test_rewrite_call(extra: bool) -> None:
    """A product that is used elsewhere stays there."""
    func = function(extra)
    x, w = wildcard(), wildcard()
    pattern = is_op("relax.nn.relu")(is_op("relax.matmul")(x, w))

    def rewriter(call: Expr, found: dict[DFPattern, Expr]) -> Any:
        return op.nn.relu(op.negative(op.matmul(op.negative(found[x]), found[w])))

    once = {"left": 1}

    def first(call: Expr, found: dict[DFPattern, Expr]) -> Any:
        once["left"] -= 1
        return rewriter(call, found) if once["left"] >= 0 else call

    new = rewrite_call(pattern, first, func)
    assert "dataflow" in str(new)
    assert str(new).count("negative") == 2
    args = [np.ones((3, 4), "float32"), np.full((4, 5), 0.5, "float32")]
    for a, b in zip(*(np.atleast_1d(evaluate(Module({GlobalVar("main"): f}), args)) for f in (func, new)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert rewrite_call(is_op("relax.tanh")(x), rewriter, func) is func
    module = Module({GlobalVar("expression_0"): func, GlobalVar("other"): function()})
    once["left"] = 1
    assert "negative" in str(rewrite_call(pattern, first, func, module))


def test_names() -> None:
    assert relax.dpl is dpl
    assert all(hasattr(dpl, name) for name in dpl.__all__)
    with pytest.raises(AttributeError, match=r"relax\.dpl has no PatternContext: not yet"):
        _ = dpl.PatternContext
