"""Shapes that are tensors computed when the program runs: compiled = interpreted = NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import RunError, TypeCheckError, UnsupportedError
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


X2, S1, S2 = "%x: Tensor[(3, 4), float32]", "%s: Tensor[(1,), int64]", "%s: Tensor[(2,), int64]"
K = "%k: int64"
IMAGES = "%x: Tensor[(1, 1, 4, 4), float32]"


def x() -> Any:
    return relay.var("x", shape=(3, 4))


def vector(name: str = "s", count: int = 2) -> Any:
    return relay.var(name, shape=(count,), dtype="int64")


def number(name: str = "k", dtype: str = "int64") -> Any:
    return relay.var(name, shape=(), dtype=dtype)


# A program as TVM printed it, and the call that made it there.
SPELLINGS: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "reshape": (f"{X2}, {S2}", "dyn.reshape(%x, %s, newshape=[])", lambda: relay.reshape(x(), vector())),
    "broadcast_to": (f"{X2}, {S2}", "dyn.broadcast_to(%x, %s, shape=None, dtype=\"\")",
                     lambda: relay.broadcast_to(x(), vector())),
    "full": (f"%v: float32, {S2}", 'dyn.full(%v, %s, shape=None, dtype="float32")',
             lambda: relay.full(number("v", "float32"), vector(), "float32")),
    "zeros": (S2, 'dyn.zeros(%s, shape=None, dtype="int8")', lambda: relay.zeros(vector(), "int8")),
    "ones": (S2, 'dyn.ones(%s, shape=None, dtype="int8")', lambda: relay.ones(vector(), "int8")),
    "tile": (f"{X2}, {S2}", "dyn.tile(%x, %s, reps=None)", lambda: relay.tile(x(), vector())),
    "topk": (f"{X2}, {K}", 'dyn.topk(%x, %k, k=None, axis=0, ret_type="values", dtype="int32")',
             lambda: relay.topk(x(), number(), axis=0, ret_type="values")),
    "one_hot": (f"%i: Tensor[(3,), int32], %a: float32, %b: float32, {K}",
                'dyn.one_hot(%i, %a, %b, %k, depth=0, axis=-1, dtype="float32")',
                lambda: relay.one_hot(relay.var("i", shape=(3,), dtype="int32"), number("a", "float32"),
                                      number("b", "float32"), number(), -1, "float32")),
    "expand_dims": (f"{X2}, {K}", "dyn.expand_dims(%x, %k, num_newaxis=2)",
                    lambda: relay.expand_dims(x(), number(), 2)),
    "squeeze": (f"{X2}, {S1}", "dyn.squeeze(%x, %s, axis=None)", lambda: relay.squeeze(x(), vector(count=1))),
    "strided_slice": (f"{X2}, %b: Tensor[(2,), int64], %e: Tensor[(2,), int64], {S2}",
                      "dyn.strided_slice(%x, %b, %e, %s, begin=None, end=None, strides=None, axes=None)",
                      lambda: relay.strided_slice(x(), vector("b"), vector("e"), vector())),
    "strided_slice in 0.7": (f"{X2}, %b: Tensor[(2,), int64], %e: Tensor[(2,), int64], {S2}",
                             "strided_slice(%x, %b, %e, %s, begin=None, end=None, strides=None)",
                             lambda: relay.strided_slice(x(), vector("b"), vector("e"), vector())),
    "nn.pad": (f"{X2}, %w: Tensor[(2, 2), int64], %v: float32", "dyn.nn.pad(%x, %w, %v, pad_width=None)",
               lambda: relay.nn.pad(x(), relay.var("w", shape=(2, 2), dtype="int64"), number("v", "float32"))),
    "nn.upsampling": (f"{IMAGES}, %a: float32, %b: float32", "dyn.nn.upsampling(%x, %a, %b, scale_h=1, scale_w=1)",
                      lambda: relay.nn.upsampling(relay.var("x", shape=(1, 1, 4, 4)), number("a", "float32"),
                                                  number("b", "float32"))),
    "nn.upsampling3d": (
        "%x: Tensor[(1, 1, 4, 4, 4), float32], %a: float32, %b: float32, %c: float32",
        "dyn.nn.upsampling3d(%x, %a, %b, %c)",
        lambda: relay.nn.upsampling3d(relay.var("x", shape=(1, 1, 4, 4, 4)), *(number(n, "float32") for n in "abc")),
    ),
    "image.resize2d": (f"{IMAGES}, {S2}, %r: Tensor[(4,), float32]",
                       'dyn.image.resize2d(%x, %s, %r, size=None, roi=None, method="linear", rounding_method="")',
                       lambda: relay.image.resize2d(relay.var("x", shape=(1, 1, 4, 4)), vector(),
                                                    relay.var("r", shape=(4,)))),
    "image.resize in 0.7": (f"{IMAGES}, {S2}", 'dyn.image.resize(%x, %s, size=None, method="bilinear")',
                            lambda: relay.image.resize2d(relay.var("x", shape=(1, 1, 4, 4)), vector(),
                                                         rounding_method="round")),
    "sparse_to_dense": (f"%i: Tensor[(3, 2), int64], {S2}, %v: Tensor[(3,), float32], %d: float32",
                        "dyn.sparse_to_dense(%i, %s, %v, %d)",
                        lambda: relay.sparse_to_dense(relay.var("i", shape=(3, 2), dtype="int64"), vector(),
                                                      relay.var("v", shape=(3,)), number("d", "float32"))),
    "arange": ("%a: int64, %b: int64, %c: int64",
               'arange(%a, %b, %c, start=None, stop=None, step=None, dtype="int64")',
               lambda: relay.arange(number("a"), number("b"), number("c"), "int64")),
}  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_text_and_calls_are_the_same_program(name: str) -> None:
    params, text, make = SPELLINGS[name]
    read = relay.parse(f'#[version = "0.0.5"]\ndef @main({params}) {{ {text} }}')
    made = relay.transform.InferType()(relay.IRModule.from_expr(make()))
    assert relay.structural_equal(read, made)
    assert relay.structural_equal(relay.parse(made.astext()), made)
    assert f"dyn.{name.removesuffix(' in 0.7')}" in made.astext()


def run(expr: Any, *args: Any) -> Any:
    """What a compiled expression gives; the interpreter gives the same."""
    module = relay.transform.InferType()(relay.IRModule.from_expr(expr))
    arrays = [a if isinstance(a, np.ndarray) else np.array(a, np.int64) for a in args]
    got, want = legato.compile(module, threads=1)(*arrays), evaluate(module.module, arrays)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    return np.asarray(got).tolist()


def test_lists_that_mix_numbers_dims_and_tensors() -> None:
    n = relay.ShapeVar("n")
    rows, k = relay.var("x", shape=(n, 4)), number()
    f = relay.Function([rows, k], relay.shape_of(relay.reshape(rows, (k, n, -1)), "int64"))
    assert run(f, X, 2) == [2, 3, 2]
    f = relay.Function([rows, k], relay.sum(relay.nn.pad(rows, ((0, 0), (k, 1)), relay.const(1.0)), 1))
    assert run(f, X, 2) == [v + 3 for v in X.sum(1)]
    f = relay.Function([k], relay.arange(1, k, dtype="int32"))
    assert run(f, 4) == [1, 2, 3]
    f = relay.Function([k], relay.arange(k, dtype="float32"))
    assert run(f, 2) == [0, 1]
    s = vector()
    f = relay.Function([rows, s], relay.strided_slice(rows, [0, 1], s, [1, 2]))
    assert run(f, X, [2, 4]) == X[0:2, 1:4:2].tolist()


def test_operators_by_their_own_names() -> None:
    made = [relay.op.dyn.reshape(x(), vector()), relay.op.dyn.nn.pad(x(), [[0, 1], [1, 0]], 0.0),
            relay.op.dyn.zeros([2, number()]),
            relay.op.dyn.image.resize2d(relay.var("i", shape=(1, 1, 4, 4)), [2, 3], None),
            relay.repeat(x(), number(), 0)]  # fmt: skip
    names = ["dyn.reshape", "dyn.nn.pad", "dyn.zeros", "dyn.image.resize2d", "dyn.repeat"]
    assert [e.op.name for e in made] == names
    assert [str(e.checked_type) for e in made[1:4:2]] == ["Tensor[(4, 5), float32]", "Tensor[(1, 1, 2, 3), float32]"]
    assert {"reshape", "nn", "image", "arange"} <= set(dir(relay.op.dyn))
    with pytest.raises(TypeCheckError, match=r"relay\.dyn\.strided_slice: begin is \[0\.5\], wanted integers"):
        relay.strided_slice(x(), [0.5], vector(count=1))


def test_elements_that_the_data_chooses() -> None:
    mask, rows = relay.var("m", shape=(3,), dtype="bool"), x()
    f = relay.Function([rows, mask], relay.take(rows, relay.squeeze(relay.argwhere(mask), 1), 0))
    assert run(f, X, np.array([True, False, True])) == X[[0, 2]].tolist()
    some = relay.var("v", shape=(relay.ShapeVar("n"),), dtype="int64")
    values, first, which, count = relay.unique(some, False)
    cut = relay.strided_slice(values, [0], count, slice_mode="size")
    f = relay.Function([some], relay.concatenate([relay.cast(v, "int64") for v in (cut, first, which, count)], 0))
    assert run(f, [7, 2, 7, 5]) == [7, 2, 5, 0, 1, 3, 0, 1, 0, 2, 3]
    assert run(f, np.zeros(0, np.int64)) == [0]
    counted = relay.Function([some], relay.unique(some, return_counts=True)[4])
    assert run(counted, [7, 2, 7, 5]) == [1, 1, 2]


def test_shapes_of_tensors_are_shapes() -> None:
    """What is computed from dims alone has a type that says so, and needs no new ones."""
    n = relay.ShapeVar("n")
    rows, like = relay.var("x", shape=(2, n)), relay.var("y", shape=(n, 2))
    made = relay.add(relay.reshape(rows, (relay.take(relay.shape_of(like), relay.const(0)), -1)), like)
    assert str(relay.ndarray_size(like, "int64").checked_type) == "int64"
    read = relay.parse(
        """#[version = "0.0.5"]
    def @main(%x: Tensor[(4,), float32], %y: Tensor[(n + 1, 2), float32]) {
      (dyn.zeros(shape_of(%y)), dyn.ones(shape_of(%y, dtype="int64")), dyn.reshape(%x, cast([2, 2], dtype="int64")))
    }""".replace('cast([2, 2], dtype="int64")', "shape_of(zeros(shape=[2, 2]))")
    )
    assert str(read["main"].checked_type.ret_type) == (
        "(Tensor[(n + 1, 2), float32], Tensor[(n + 1, 2), float32], Tensor[(2, 2), float32])"
    )
    y = X.reshape(6, 2)
    assert run(relay.Function([rows, like], made), X.reshape(2, 6), y) == (2 * y).tolist()


def test_what_depends_on_the_data_in_its_rank_has_no_type() -> None:
    s = relay.var("s", shape=(relay.Any(),), dtype="int64")
    for made in (relay.reshape(x(), s), relay.squeeze(x(), s), relay.strided_slice(x(), s, [3, 4])):
        with pytest.raises(TypeCheckError, match="has is not known: the rank of the result depends on it"):
            relay.transform.InferType()(relay.IRModule.from_expr(made))
    with pytest.raises(UnsupportedError, match="axis is computed when the program runs"):
        relay.sum(x(), vector())
    with pytest.raises(UnsupportedError, match="newshape has entries whose type is not known yet"):
        relay.reshape(x(), (relay.var("n"), 2))
    crop = relay.image.resize2d(relay.var("i", shape=(1, 1, 4, 4)), vector(), relay.var("r", shape=(4,)),
                                coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    with pytest.raises(UnsupportedError, match="roi is computed when the program runs"):
        legato.compile(relay.IRModule.from_expr(crop))
