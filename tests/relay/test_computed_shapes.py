"""Shapes that are tensors computed when the program runs: compiled = interpreted = NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import RunError, UnsupportedError
from legato.interp import evaluate

X = np.arange(12, dtype=np.float32).reshape(3, 4)
IMAGE = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)

Case = tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any], Any, list[Any]]
CASES: dict[str, Case] = {
    "reshape": (relay.reshape, lambda x, s: x.reshape(s), X, [[2, 6], [-1, 2], [12, -1]]),
    "reshape keeps": (relay.reshape, lambda x, s: x.reshape(3, -1), X, [[0, -1], [0, 4]]),
    "broadcast_to": (relay.broadcast_to, np.broadcast_to, X[:1], [[3, 4], [0, 4]]),
    "full": (lambda x, s: relay.full(relay.sum(x), s), lambda x, s: np.full(s, x.sum()), X, [[2, 3], [0, 1]]),
    "zeros": (lambda x, s: relay.zeros(s, "float32"), lambda x, s: np.zeros(s), X, [[2, 3], [0, 1]]),
    "ones": (lambda x, s: relay.ones(s, "float32"), lambda x, s: np.ones(s), X, [[2, 3], [0, 1]]),
    "tile": (relay.tile, np.tile, X, [[2, 1], [1, 3], [0, 2]]),
    "topk": (
        lambda x, k: relay.topk(x, k, axis=1, ret_type="values"),
        lambda x, k: np.sort(x, axis=1)[:, ::-1][:, :k],
        X,
        [1, 3, 4],
    ),
    "one_hot": (
        lambda x, d: relay.one_hot(relay.cast(x, "int32"), relay.const(1.0), relay.const(0.0), d, -1, "float32"),
        lambda x, d: x[..., None] == np.arange(d),
        X,
        [1, 13],
    ),
    "resize2d": (
        lambda x, s: relay.image.resize2d(
            x, s, method="nearest_neighbor", coordinate_transformation_mode="asymmetric", rounding_method="floor"
        ),
        lambda x, s: x.repeat(s[0] // 4, 2).repeat(s[1] // 4, 3),
        IMAGE,
        [[8, 4], [4, 12]],
    ),
    "pad": (relay.nn.pad, np.pad, X, [[[1, 0], [2, 3]], [[0, 0], [0, 0]]]),
    "strided_slice": (
        lambda x, s: relay.strided_slice(x, s, relay.const([3, 4]), [1, 2]),
        lambda x, s: x[s[0] :, s[1] :: 2],
        X,
        [[0, 1], [-2, -3], [5, -9]],
    ),
    "a slice's end": (
        lambda x, e: relay.strided_slice(x, [0], e, axes=[-1]),
        lambda x, e: x[:, : e[0]],
        X,
        [[2], [-1], [9]],
    ),
}


def program(call: Callable[[Any, Any], Any], data: Any, size: Any) -> Any:
    """The call between two others that share its data, so that its dims are used outside of it."""
    x = relay.var("x", shape=data.shape)
    s = relay.var("s", shape=np.shape(size), dtype="int64")
    shared = relay.negative(x)
    made = relay.negative(call(relay.negative(shared), s))
    return relay.IRModule.from_expr(relay.Function([x, s], relay.Tuple([relay.add(made, made), shared])))


@pytest.mark.parametrize("name", CASES)
def test_a_shape_that_is_an_input(name: str) -> None:
    call, peer, data, sizes = CASES[name]
    module = program(call, data, sizes[0])
    text = legato.parse(module.astext())
    exe = legato.compile(module, threads=1)
    for size in sizes:
        given = [data, np.array(size, np.int64)]
        for run in (exe, lambda *a: evaluate(text, list(a))):
            got, _ = run(*given)
            np.testing.assert_array_equal(np.asarray(got), -2 * np.asarray(peer(data, given[1]), np.float32))


@pytest.mark.parametrize(("name", "size"), [("reshape", [5, -1]), ("zeros", [-1, 2]), ("broadcast_to", [3, 5])])
def test_what_does_not_fit_ends_the_call(name: str, size: list[int]) -> None:
    call, _, data, _ = CASES[name]
    module = program(call, data, size)
    text = legato.parse(module.astext())
    for run in (legato.compile(module, threads=1), lambda *a: evaluate(text, list(a))):
        with pytest.raises(RunError):
            run(data, np.array(size, np.int64))


def test_the_fields_of_a_tuple() -> None:
    x, k = relay.var("x", shape=(3, 4)), relay.var("k", shape=(), dtype="int64")
    values, indices = relay.topk(x, k)
    exe = legato.compile(relay.IRModule.from_expr(relay.Function([x, k], relay.Tuple([indices, values]))), threads=1)
    got = exe(X, np.array(2))
    assert [np.asarray(g).tolist() for g in got] == [[[3, 2]] * 3, [[3, 2], [7, 6], [11, 10]]]


def test_a_shape_of_unknown_rank_is_refused() -> None:
    x, s = relay.var("x", shape=(3, 4)), relay.var("s", shape=(relay.Any(),), dtype="int64")
    with pytest.raises(UnsupportedError, match="newshape is computed when the program runs"):
        relay.reshape(x, s)
    with pytest.raises(UnsupportedError, match="steps above 0"):
        relay.strided_slice(x, relay.var("s", shape=(2,), dtype="int64"), [3, 4], [-1, -1])
