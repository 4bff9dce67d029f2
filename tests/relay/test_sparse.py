"""Sparse weights under Relay's names: operators, passes by name and by constants, programs with their parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError, TypeCheckError
from legato.relay import transform
from legato.transform._sparse import blocks_of

Array = np.ndarray[Any, Any]


def sparse(*shape: int, height: int = 1, seed: int = 0) -> Array:
    """Random integers, of which a fifth of the blocks along the first axis are not zero; that many rows are one."""
    rng = np.random.default_rng(seed)
    kept = rng.random((shape[0] // height, *shape[1:])) < 0.2
    found: Array = (rng.integers(1, 9, shape) * np.repeat(kept, height, 0)).astype("float32")
    return found


def run(func: Any, *args: Array, **params: Array) -> Array:
    found: Array = relay.create_executor("debug", relay.IRModule.from_expr(func)).evaluate()(*args, **params)
    return np.asarray(found)


def test_products_and_sums() -> None:
    x, w = np.arange(12, dtype="float32").reshape(3, 4), sparse(8, 4)
    blocks = blocks_of(w, 2, 1)
    parts = (relay.const(blocks.data), relay.const(blocks.indices), relay.const(blocks.indptr))
    np.testing.assert_array_equal(run(relay.Function([], relay.nn.sparse_dense(relay.const(x), blocks))), x @ w.T)
    left = relay.nn.sparse_dense(relay.const(x), parts, sparse_lhs=True)
    np.testing.assert_array_equal(run(relay.Function([], left)), w @ x.T)
    square = sparse(5, 5, seed=1)
    found = blocks_of(square, 1, 1)
    rows = (found.data.reshape(-1), found.indices, found.indptr)
    turned = relay.nn.sparse_transpose(tuple(map(relay.const, rows)))
    total = relay.nn.sparse_add(relay.const(square), (turned[0], turned[1], turned[2]))
    np.testing.assert_array_equal(run(relay.Function([], total)), square + square.T)
    with pytest.raises(TypeCheckError, match="a sparse matrix is data, indices and indptr, got a list"):
        relay.nn.sparse_add(relay.const(square), [1])


@pytest.mark.parametrize("rank", [2, 3])
def test_products_with_parameters(rank: int) -> None:
    x, w, v = relay.var("x", shape=(2, 3, 8)[-rank:]), relay.var("w", shape=(16, 8)), relay.var("v", shape=(16, 16))
    func = relay.Function([x, w, v], relay.nn.dense(relay.nn.dense(x, w), v))
    params = {"w": sparse(16, 8, height=4), "v": np.ones((16, 16), "float32")}
    new, found = relay.data_dep_optimization.bsr_dense.convert(func, params, (4, 1), 0.6)
    assert sorted(params) == ["v", "w"]
    assert [p.name for p in new.params] == ["x", "v", "w.data", "w.indices", "w.indptr"]
    assert sorted(found) == ["v", "w.data", "w.indices", "w.indptr"]
    assert found["w.data"].shape[1:] == (4, 1)
    assert relay.analysis.list_op_freqs(new)["nn.sparse_dense"] == 1
    data = np.arange(6 * 8, dtype="float32").reshape(2, 3, 8)[0 if rank == 2 else slice(None)]
    np.testing.assert_array_equal(run(new, data, **found), run(func, data, **params))


def test_weights_with_other_uses_stay() -> None:
    x, w = relay.var("x", shape=(2, 8)), relay.var("w", shape=(8, 8))
    func = relay.Function([x, w], relay.add(relay.nn.dense(x, w), relay.sum(w)))
    params = {"w": sparse(8, 8)}
    new, found = relay.data_dep_optimization.bsr_dense.convert(func, params, (1, 1), 0.5)
    assert [p.name for p in new.params] == ["x", "w", "w.data", "w.indices", "w.indptr"]
    data = np.ones((2, 8), "float32")
    np.testing.assert_array_equal(run(new, data, **found), run(func, data, **params))


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kernel", [1, 3])
def test_convolutions_with_parameters(layout: str, kernel: int) -> None:
    last = layout == "NHWC"
    shape, kernel_layout = ((1, 5, 4, 3), "HWIO") if last else ((1, 3, 5, 4), "OIHW")
    weight = sparse(8, 3, kernel, kernel, height=4)
    weight = np.ascontiguousarray(weight.transpose(2, 3, 1, 0)) if last else weight
    x, w = relay.var("x", shape=shape), relay.var("w", shape=weight.shape)
    attrs = {"data_layout": layout, "kernel_layout": kernel_layout}
    conv = relay.nn.conv2d(x, w, padding=(kernel // 2,) * 2, **attrs)
    func, params = relay.Function([x, w], conv), {"w": weight}
    new, found = relay.data_dep_optimization.bsr_conv2d.convert(func, params, (4, 1), 0.5, layout, kernel)
    assert relay.analysis.list_op_freqs(new) == {"nn.sparse_conv2d": 1}
    assert found["w.data"].ndim == (2 if kernel == 1 else 3)
    data = np.arange(60, dtype="float32").reshape(shape)
    np.testing.assert_array_equal(run(new, data, **found), run(func, data, **params))
    bound = relay.Function([x], relay.bind(conv, {w: relay.const(weight)}))
    frozen = transform.Conv2dToSparse2(layout, kernel, (4, 1), 0.5)(relay.IRModule.from_expr(bound))["main"]
    assert relay.analysis.list_op_freqs(frozen) == {"nn.sparse_conv2d": 1}
    np.testing.assert_array_equal(run(frozen, data), run(func, data, **params))
    other = transform.Conv2dToSparse2(layout, 5, (4, 1), 0.5)(relay.IRModule.from_expr(bound))["main"]
    assert relay.analysis.list_op_freqs(other) == {"nn.conv2d": 1}


def test_levels_and_refusals() -> None:
    made = [transform.DenseToSparse([], []), transform.Conv2dToSparse([], [], "NHWC", 1),
            transform.Conv2dToSparse2("NHWC", 1, (4, 1), 0.5)]  # fmt: skip
    assert [(p.info.name, p.info.opt_level) for p in made] == [
        ("DenseToSparse", 4),
        ("Conv2dToSparse", 4),
        ("Conv2dToSparse2", 5),
    ]
    with pytest.raises(CompileError, match=r"the shape of w has 2 numbers, \[3, 4\], wanted 5"):
        transform.DenseToSparse(["w"], [[3, 4]])
    x, w = relay.var("x", shape=(1, 4)), relay.var("w", shape=(4, 4))
    func, params = relay.Function([x, w], relay.nn.dense(x, w)), {"w": np.zeros((4, 4), "float32")}
    with pytest.raises(CompileError, match="there are no blocks of 0 × 1"):
        relay.data_dep_optimization.bsr_dense.convert(func, params, (0, 1), 0.5)
