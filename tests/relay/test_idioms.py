"""Calls as programs wrote them: each has the type that Relay gave it, and goes through text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from legato import relay


def X(*shape: Any, dtype: str = "float32", name: str = "x") -> Any:
    return relay.var(name, shape=shape, dtype=dtype)


CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: X(2).astype("int32"), "Tensor[(2,), int32]"),
    (lambda: relay.sum(X(2, 3), axis=[1], keepdims=True), "Tensor[(2, 1), float32]"),
    (lambda: relay.argmax(X(2, 3), axis=1), "Tensor[(2,), int32]"),
    (lambda: relay.mean(X(1, 2, 3, 4), axis=(2, 3)), "Tensor[(1, 2), float32]"),
    (
        lambda: relay.image.resize2d(
            X(1, 2, 4, 4), (8, 8), method="nearest_neighbor", coordinate_transformation_mode="asymmetric"
        ),
        "Tensor[(1, 2, 8, 8), float32]",
    ),
    (lambda: relay.nn.upsampling(X(1, 2, 4, 4), 2, 2), "Tensor[(1, 2, 8, 8), float32]"),
    (
        lambda: relay.nn.upsampling(X(1, 2, 4, 4), scale_h=2.0, scale_w=2.0, method="bilinear"),
        "Tensor[(1, 2, 8, 8), float32]",
    ),
    (lambda: relay.nn.pad(X(1, 2), ((0, 0), (1, 1))), "Tensor[(1, 4), float32]"),
    (lambda: relay.nn.lrn(X(1, 8, 4, 4)), "Tensor[(1, 8, 4, 4), float32]"),
    (lambda: relay.nn.batch_matmul(X(2, 3, 4), X(2, 5, 4, name="y")), "Tensor[(2, 3, 5), float32]"),
    (lambda: relay.nn.layer_norm(X(2, 3), X(3, name="g"), X(3, name="b")), "Tensor[(2, 3), float32]"),
    (
        lambda: relay.one_hot(X(3, dtype="int32"), relay.const(1.0), relay.const(0.0), 5, -1, "float32"),
        "Tensor[(3, 5), float32]",
    ),
    (lambda: relay.gather(X(2, 3), 1, X(2, 2, dtype="int32", name="i")), "Tensor[(2, 2), float32]"),
    (lambda: relay.take(X(5, 3), X(2, dtype="int32", name="i"), axis=0), "Tensor[(2, 3), float32]"),
    (lambda: relay.take(X(5, 3), relay.const(1), axis=0, mode="wrap"), "Tensor[(3,), float32]"),
    (
        lambda: relay.scatter_elements(X(2, 3), X(2, 1, dtype="int32", name="i"), X(2, 1, name="u"), 1),
        "Tensor[(2, 3), float32]",
    ),
    (lambda: relay.cumsum(X(2, 3), axis=1), "Tensor[(2, 3), float32]"),
    (lambda: relay.arange(relay.const(0), relay.const(10), relay.const(2), dtype="int32"), "Tensor[(5,), int32]"),
    (lambda: relay.full(relay.const(1.0), (2, 2), "float32"), "Tensor[(2, 2), float32]"),
    (lambda: relay.reverse(X(2, 3), axis=0), "Tensor[(2, 3), float32]"),
    (lambda: relay.repeat(X(2, 3), 2, axis=1), "Tensor[(2, 6), float32]"),
    (lambda: relay.tile(X(2, 3), (2, 1)), "Tensor[(4, 3), float32]"),
    (
        lambda: relay.nn.conv3d(X(1, 2, 5, 5, 5), relay.var("w"), channels=3, kernel_size=(3, 3, 3), padding=(1, 1, 1)),
        "Tensor[(1, 3, 5, 5, 5), float32]",
    ),
    (
        lambda: relay.nn.conv1d_transpose(X(1, 2, 5), relay.var("w"), channels=3, kernel_size=(3,), strides=(2,)),
        "Tensor[(1, 3, 11), float32]",
    ),
    (
        lambda: relay.nn.conv2d_transpose(
            X(1, 2, 5, 5),
            relay.var("w"),
            channels=3,
            kernel_size=(3, 3),
            strides=(2, 2),
            padding=(1, 1),
            output_padding=(1, 1),
        ),
        "Tensor[(1, 3, 10, 10), float32]",
    ),
    (lambda: relay.nn.adaptive_avg_pool2d(X(1, 2, 5, 5), (1, 1)), "Tensor[(1, 2, 1, 1), float32]"),
    (lambda: relay.nn.adaptive_avg_pool2d(X(1, 2, 5, 5)), "Tensor[(1, 2, 5, 5), float32]"),
    (lambda: relay.nn.global_avg_pool2d(X(1, 2, 5, 5)), "Tensor[(1, 2, 1, 1), float32]"),
    (lambda: relay.reshape(X(2, 3, 4), (0, -1)), "Tensor[(2, 12), float32]"),
    (lambda: relay.reshape(X(2, 3), -1), "Tensor[(6,), float32]"),
    (lambda: relay.reshape(X(2, 3, 4), (-3, -2)), "Tensor[(6, 4), float32]"),
    (lambda: relay.reshape(X(2, 3, 4), (-4, 1, 2, -2)), "Tensor[(1, 2, 3, 4), float32]"),
    (lambda: relay.squeeze(X(1, 2, 1), axis=0), "Tensor[(2, 1), float32]"),
    (lambda: relay.split(X(6, 2), 3, axis=0)[0], "Tensor[(2, 2), float32]"),
    (
        lambda: relay.Tuple(relay.split(X(6, 2), (1, 2))),
        "(Tensor[(1, 2), float32], Tensor[(1, 2), float32], Tensor[(4, 2), float32])",
    ),
    (lambda: relay.clip(X(2), 0.0, 6.0), "Tensor[(2,), float32]"),
    (lambda: relay.power(X(2), relay.const(2.0)), "Tensor[(2,), float32]"),
    (lambda: relay.shape_of(X(2, 3)), "Tensor[(2,), int32]"),
    (lambda: relay.ndarray_size(X(2, 3)), "int32"),
    (lambda: relay.strided_slice(X(4, 5), begin=[0, 1], end=[2, 3]), "Tensor[(2, 2), float32]"),
    (lambda: relay.strided_slice(X(4, 5), begin=[1], end=[3], axes=[1]), "Tensor[(4, 2), float32]"),
    (lambda: relay.strided_slice(X(4, 5), begin=[1, 1], end=[2, -1], slice_mode="size"), "Tensor[(2, 4), float32]"),
    (lambda: relay.stack([X(2), X(2, name="y")], axis=0), "Tensor[(2, 2), float32]"),
    (lambda: relay.concatenate(relay.split(X(6, 2), 3), axis=1), "Tensor[(2, 6), float32]"),
    (lambda: relay.concatenate(relay.Tuple([X(2), X(2, name="y")]), axis=0), "Tensor[(4,), float32]"),
    (lambda: relay.where(X(2, dtype="bool", name="c"), X(2), X(2, name="y")), "Tensor[(2,), float32]"),
    (lambda: relay.zeros((2, 3), "float32"), "Tensor[(2, 3), float32]"),
    (lambda: relay.ones(shape=(2,), dtype="int32"), "Tensor[(2,), int32]"),
    (lambda: relay.zeros_like(X(2)), "Tensor[(2,), float32]"),
    (lambda: relay.sort(X(5)), "Tensor[(5,), float32]"),
    (lambda: relay.argsort(X(5), axis=0, is_ascend=False, dtype="int32"), "Tensor[(5,), int32]"),
    (lambda: relay.topk(X(5), k=2)[0], "Tensor[(2,), float32]"),
    (lambda: relay.nn.bias_add(X(1, 2, 3, 3), X(2, name="b")), "Tensor[(1, 2, 3, 3), float32]"),
    (
        lambda: relay.nn.batch_norm(
            X(1, 2, 3, 3), relay.var("g"), relay.var("b"), relay.var("m"), relay.var("v"), axis=1
        )[0],
        "Tensor[(1, 2, 3, 3), float32]",
    ),
    (lambda: -X(2) + relay.const(1.0), "Tensor[(2,), float32]"),
    (lambda: relay.Call(relay.Function([a := X(2)], a), [X(2, name="y")]), "Tensor[(2,), float32]"),
    (lambda: relay.Function([a := X(2)], relay.tanh(a))(X(2, name="y")), "Tensor[(2,), float32]"),
    (lambda: relay.einsum([X(2, 3), X(3, 4, name="y")], "ij,jk->ik"), "Tensor[(2, 4), float32]"),
    (lambda: relay.nn.depth_to_space(X(1, 8, 2, 2), 2), "Tensor[(1, 2, 4, 4), float32]"),
    (lambda: relay.RefRead(relay.RefCreate(X(2))), "Tensor[(2,), float32]"),
    (lambda: relay.Let(v := relay.var("v"), X(2), v + v), "Tensor[(2,), float32]"),
    (lambda: relay.nn.prelu(X(1, 3, 2, 2), X(3, name="al")), "Tensor[(1, 3, 2, 2), float32]"),
    (lambda: relay.nn.leaky_relu(X(2), 0.1), "Tensor[(2,), float32]"),
    (lambda: relay.nn.l2_normalize(X(1, 3, 2, 2), 0.001, [1]), "Tensor[(1, 3, 2, 2), float32]"),
    (lambda: relay.nn.instance_norm(X(1, 3, 4), relay.var("g"), relay.var("b")), "Tensor[(1, 3, 4), float32]"),
    (lambda: relay.nn.group_norm(X(1, 4, 4), relay.var("g"), relay.var("b"), 2), "Tensor[(1, 4, 4), float32]"),
    (lambda: relay.broadcast_to(X(1, 3), (2, 3)), "Tensor[(2, 3), float32]"),
    (lambda: relay.nn.max_pool1d(X(1, 2, 8), pool_size=(2,), strides=(2,)), "Tensor[(1, 2, 4), float32]"),
    (
        lambda: relay.nn.avg_pool3d(X(1, 2, 4, 4, 4), pool_size=(2, 2, 2), strides=(2, 2, 2)),
        "Tensor[(1, 2, 2, 2, 2), float32]",
    ),
]


@pytest.mark.parametrize(("make", "want"), CALLS, ids=range(len(CALLS)))
def test_call(make: Callable[[], Any], want: str) -> None:
    mod = relay.transform.InferType()(relay.IRModule.from_expr(make()))
    assert str(mod["main"].ret_type) == want
    assert relay.structural_equal(relay.parse(mod.astext()), mod)


def test_nodes_are_matched_by_kind() -> None:
    match relay.const(1):
        case relay.Call():
            raise AssertionError
        case relay.Constant(data=data):
            assert data == 1
