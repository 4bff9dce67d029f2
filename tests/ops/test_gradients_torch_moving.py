"""Gradients of operators that move elements, and of products: as PyTorch has them; and the same bits for any number of
threads, and for dims that are symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.expr import Var as DimVar
from legato.autodiff import vjp
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.module import Module

torch = pytest.importorskip("torch")
F = torch.nn.functional

RNG = np.random.default_rng(3)
X = RNG.standard_normal((5, 6))
CUBE = RNG.standard_normal((2, 3, 4))
IMAGE = RNG.standard_normal((1, 4, 3, 5))
ROWS = np.array([[4, 0, 4], [2, 4, 0]])
WILD = np.array([7, -1, 4, -9, 0, 0])
AT = np.array([[1, 0, 2, 1, 1, 0], [2, 2, 0, 1, 0, 0]])
ONES = np.round(X) / 2  # with zeros and ties
SOME = np.round(RNG.standard_normal((2, 6))) / 2


def case(name: str, f: Callable[..., Any], *args: Any, **attrs: Any) -> Any:
    """An operator of some arrays, of which those of integers have no gradient, and the same in torch."""
    return pytest.param(name, attrs, list(args), f, id=f"{name}-{attrs}")


def reduced(how: str) -> Callable[..., Any]:
    """scatter_elements along axis 0, as PyTorch reduces."""
    return lambda x, i, u: x.scatter_reduce(0, i, u, how)


def sparse(rows: int, columns: int) -> Callable[[Any], Any]:
    """The matrix of blocks (0, 0), (0, 3) and (2, 1) of the given values, dense."""

    def matrix(v: Any) -> Any:
        v = v.reshape(3, *v.shape[1:], *(1,) * (3 - v.ndim))
        h, w = v.shape[1:]
        whole = torch.zeros(rows * h, columns * w, dtype=v.dtype)
        for block, (r, c) in zip(v, ((0, 0), (0, 3), (2, 1)), strict=True):
            whole = whole + F.pad(block, (c * w, (columns - c - 1) * w, r * h, (rows - r - 1) * h))
        return whole

    return matrix


PLACES = np.array([0, 3, 1]), np.array([0, 2, 2, 3])

CASES = [
    case("take", lambda x, i: x[i.clamp(0, 4)], X, WILD, axis=0),
    case("take", lambda x, i: x[i % 5], X, WILD, axis=0, mode="wrap"),
    case("take", lambda x, i: x[:, torch.where(i < 0, i + 6, i).clamp(0, 5)], X, WILD, axis=1, mode="fast"),
    case("take", lambda x, i: x.flatten()[i.clamp(0, 29)], X, WILD),
    case("take", lambda x, i: F.embedding(i, x), X, ROWS, axis=0),
    case("take", lambda x, i: torch.stack([x[n][:, i[n]] for n in range(2)]), CUBE, ROWS % 4, axis=2, batch_dims=1),
    case("gather", lambda x, i: x.gather(0, i), X, AT, axis=0),
    case("gather", lambda x, i: x.gather(1, i), X, ROWS, axis=1),
    case("gather_nd", lambda x, i: x[i[0], i[1]], CUBE, AT[:, :2] % 2, index_rank=2),
    case("scatter_elements", lambda x, i, u: x.scatter(0, i, u), X, AT[:1], SOME[:1]),
    case("scatter_elements", lambda x, i, u: x.scatter_add(0, i, u), X, AT, SOME, reduction="add"),
    *(case("scatter_elements", reduced(torch_name), x, AT, u, reduction=name)
      for name, torch_name in (("mul", "prod"), ("max", "amax"), ("min", "amin"))
      for x, u in ((X, SOME), (ONES, SOME), (ONES, ONES[:2]))),
    case("scatter_nd", lambda x, i, u: x.index_put((i[0],), u, accumulate=True), X, AT[:1], RNG.standard_normal((6, 6)),
         mode="add"),
    case("scatter_nd", lambda x, i, u: x.index_put((i[0], i[1]), u), X, np.array([[0, 1], [2, 2]]), SOME[0, :2]),
    case("strided_slice", lambda x: x[1:5:2, 4:1], X, begin=(1, 4), end=(5, 1), strides=(2, 1)),
    case("strided_slice", lambda x: x[1:5:3].flip(1)[:, ::2], X, begin=(1, 5), end=(5, -9), strides=(3, -2)),
    case("reverse", lambda x: x.flip(0), X, axis=0),
    case("tile", lambda x: x.tile(2, 1, 3), X, reps=(2, 1, 3)),
    case("repeat", lambda x: x.repeat_interleave(3, 1), X, repeats=3, axis=1),
    case("nn.pad", lambda x, v: F.pad(x, (1, 2, 0, 3)) * 1 + F.pad(torch.zeros_like(x), (1, 2, 0, 3), value=1) * v,
         X, np.array(0.5), pad_width=((0, 3), (1, 2))),
    case("nn.pad", lambda x, v: F.pad(x, (2, 1, 1, 2), "reflect"), CUBE, np.array(0.0),
         pad_width=((0, 0), (1, 2), (2, 1)), pad_mode="reflect"),
    case("nn.pad", lambda x, v: F.pad(x, (5, 1, 0, 9), "replicate"), CUBE, np.array(0.0),
         pad_width=((0, 0), (0, 9), (5, 1)), pad_mode="edge"),
    case("nn.depth_to_space", lambda x: F.pixel_shuffle(x, 2), IMAGE, block_size=2, mode="CRD"),
    case("nn.space_to_depth", lambda x: F.pixel_unshuffle(x, 2), IMAGE[:, :1, :2, :4], block_size=2),
    *(case("image.resize2d", lambda x, m=m, a=a: F.interpolate(x, (7, 2), mode=m, align_corners=a), IMAGE, size=(7, 2),
           method=name, cubic_alpha=-0.75, coordinate_transformation_mode="align_corners" if a else "half_pixel")
      for name, m in (("linear", "bilinear"), ("cubic", "bicubic")) for a in (False, True)),
    case("nn.upsampling", lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), IMAGE, scale_h=2.0, scale_w=2.0),
    *(case("einsum", lambda *xs, e=e: torch.einsum(e, *xs), *xs, equation=e) for e, xs in (
        ("ij,kj->ik", (X, RNG.standard_normal((2, 6)))), ("ij,k->i", (X, CUBE[0, 0])), ("iji->j", (CUBE[:, :, :2],)),
        ("...ij,...jk->...ik", (CUBE, RNG.standard_normal((1, 4, 2)))), ("abc->", (CUBE,)),
        ("ab,bc,c->a", (X, RNG.standard_normal((6, 4)), CUBE[0, 0])))),
    *(case("matmul", torch.matmul, x, y) for x, y in (
        (X, X.T), (X[0], X[1]), (CUBE, X[:4]), (CUBE, X[0, :4]), (X[0, :3], CUBE), (X[:, :3], CUBE),
        (CUBE[:, None], RNG.standard_normal((5, 4, 2))))),
    case("nn.batch_matmul", lambda x, y: x.mT @ y.mT, CUBE, RNG.standard_normal((1, 5, 3)), transpose_a=True),
    case("nn.matmul", lambda x, y: x.T @ y.T, X, RNG.standard_normal((3, 5)), transpose_a=True, transpose_b=True),
    case("nn.contrib_dense_pack", lambda x, w: x @ w.permute(0, 2, 1).reshape(6, 6).T, X,
         RNG.standard_normal((2, 6, 3)), weight_layout="NC3n"),
    case("nn.sparse_dense", lambda x, v, *_: x @ sparse(3, 4)(v).T, X[:, :4], CUBE[0, :, 0], *PLACES),
    case("nn.sparse_dense", lambda x, v, *_: sparse(3, 4)(v) @ x.T, RNG.standard_normal((9, 8)),
         RNG.standard_normal((3, 4, 2)), *PLACES, sparse_lhs=True),
    case("nn.sparse_conv2d", lambda x, v, *_: F.conv2d(x, sparse(3, 36)(v).reshape(3, 4, 3, 3), padding=1), IMAGE,
         CUBE[0, :, 0], *PLACES, kernel_size=(3, 3), layout="NCHW"),
]  # fmt: skip


def program(name: str, attrs: dict[str, Any], args: list[Any]) -> Module:
    """The operator as a module."""
    b = Builder()
    params = [b.var(f"x{n}", x.shape, x.dtype) for n, x in enumerate(args)]
    return Module.from_expr(b.function(params, b.op(name)(*params, **attrs)))


@pytest.mark.parametrize(("name", "attrs", "args", "f"), CASES)
def test_gradients_are_those_of_pytorch(
    name: str, attrs: dict[str, Any], args: list[Any], f: Callable[..., Any]
) -> None:
    floats = [n for n, x in enumerate(args) if x.dtype == np.float64]
    given = [torch.tensor(x, requires_grad=n in floats) for n, x in enumerate(args)]
    y = f(*given)
    dy = np.random.default_rng(1).standard_normal(tuple(y.shape))
    y.backward(torch.tensor(dy))
    value, gradients = evaluate(vjp(program(name, attrs, args), floats), [*args, dy])
    wanted = [np.zeros(args[n].shape) if given[n].grad is None else given[n].grad.numpy() for n in floats]
    for got, want in zip((value, *gradients), (y.detach().numpy(), *wanted), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10 * max(1.0, np.abs(want).max(initial=0)))


def test_the_last_of_several_updates_has_the_gradient() -> None:
    """Others are nowhere in the result; PyTorch does not say which one it is."""
    args = [np.zeros(4), np.array([1, 3, 1, 9]), np.ones(4)]
    dy = np.array([1.0, 2.0, 3.0, 4.0])
    _, (dx, du) = evaluate(vjp(program("scatter_elements", {}, args), [0, 2]), [*args, dy])
    assert dx.tolist() == [1, 0, 3, 0]
    assert du.tolist() == [0, 4, 2, 0]


@pytest.mark.parametrize("how", ["max", "min"])
def test_nans_of_a_scatter_share_the_gradient(how: str) -> None:
    nan = float("nan")
    args = [np.array([1.0, nan, 2.0, nan]), np.array([0, 0, 1, 3]), np.array([nan, 5.0, 3.0, nan])]
    _, (dx, du) = evaluate(vjp(program("scatter_elements", {"reduction": how}, args), [0, 2]), [*args, np.ones(4)])
    assert dx.tolist() == [0, 1, 1, 0.5]
    assert du.tolist() == [1, 0, 0, 0.5]


BITS = [
    ("take_grad", {"shape": (40, 300), "axis": 0}, [(500, 300), (500,)], 40),
    ("take_grad", {"shape": (6, 40, 7), "axis": 1}, [(6, 500, 7), (500,)], 40),
    ("gather_grad", {"shape": (40, 300), "axis": 0}, [(90, 300), (90, 300)], 40),
    ("gather_nd_grad", {"shape": (9, 9, 200)}, [(300, 200), (2, 300)], 9),
    ("scatter_nd", {"mode": "add"}, [(40, 300), (1, 500), (500, 300)], 40),
    ("scatter_elements", {"reduction": "add", "axis": 1}, [(300, 40), (300, 90), (300, 90)], 40),
    ("image.resize2d_grad", {"size": (40, 60), "shape": (2, 8, 20, 30)}, [(2, 8, 40, 60)], 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attrs", "shapes", "n"), BITS)
def test_sums_have_the_same_bits_for_any_number_of_threads(
    name: str, attrs: dict[str, Any], shapes: list[tuple[int, ...]], n: int
) -> None:
    rng = np.random.default_rng(5)
    at = 1 if len(shapes) > 1 else None
    args = [rng.integers(0, n, s) if d == at else rng.standard_normal(s).astype("float32")
            for d, s in enumerate(shapes)]  # fmt: skip
    mod = program(name, attrs, args)
    first, *others = (np.asarray(legato.compile(mod, threads=t)(*args)).tobytes() for t in (1, 2, 3))
    assert all(o == first for o in others)


def test_16_bit_floats_are_added_in_float32() -> None:
    args = [np.full((4096, 1), 0.75, np.float16), np.zeros(4096, np.int64)]
    mod = program("take_grad", {"shape": (2, 1), "axis": 0}, args)
    for got in (evaluate(mod, args), legato.compile(mod)(*args)):
        assert np.asarray(got).tolist() == [[3072.0], [0.0]]


SYMBOLIC = [
    ("take", {"axis": 0}, [("n", 3), ("m",)], {"n": 4, "m": 6}),
    ("gather_nd", {}, [("n", "m", 2), (2, "k")], {"n": 3, "m": 2, "k": 5}),
    ("scatter_elements", {"reduction": "max"}, [("n", 3), ("m", 3), ("m", 3)], {"n": 4, "m": 2}),
    ("scatter_elements", {}, [("n", "k"), ("m", "k"), ("m", "k")], {"n": 4, "m": 6, "k": 2}),
    ("scatter_nd", {"mode": "mul"}, [("n", 3), (1, "m"), ("m", 3)], {"n": 4, "m": 2}),
    ("strided_slice", {"begin": (-1, 1), "end": (0, 9), "strides": (-2, 3)}, [("n", "m")], {"n": 6, "m": 8}),
    ("strided_slice", {"begin": (2, 1), "end": (9, 9)}, [("n", "m")], {"n": 1, "m": 0}),
    ("concatenate", {"axis": 1}, [(2, "n"), (2, "m"), (2, 0)], {"n": 3, "m": 0}),
    ("stack", {"axis": 1}, [("n", 2), ("n", 2)], {"n": 3}),
    ("split", {"indices_or_sections": 3, "axis": 1}, [(2, "n")], {"n": 6}),
    ("reshape", {"newshape": (-1, 3)}, [("n", 4, 3)], {"n": 0}),
    ("tile", {"reps": (2, 3)}, [("n", 3)], {"n": 2}),
    ("nn.pad", {"pad_width": ((1, 2), (3, -1)), "pad_mode": "reflect"}, [("n", "m"), ()], {"n": 2, "m": 4}),
    ("nn.pad", {"pad_width": ((1, 2), (3, -1))}, [("n", "m"), ()], {"n": 0, "m": 4}),
    ("matmul", {}, [("b", "n", 3), (3, "m")], {"b": 2, "n": 4, "m": 5}),
    ("matmul", {}, [("b", "n", 3), ("c", 3, "m")], {"b": 2, "n": 4, "c": 1, "m": 5}),
    ("nn.batch_matmul", {}, [("b", "n", "k"), ("b", "m", "k")], {"b": 2, "n": 4, "k": 3, "m": 1}),
    ("einsum", {"equation": "bij,bjk->bik"}, [("b", "n", 3), ("c", 3, 2)], {"b": 1, "n": 4, "c": 3}),
    ("einsum", {"equation": "ij,k->i"}, [("n", "m"), ("k",)], {"n": 2, "m": 3, "k": 4}),
    ("einsum", {"equation": "iij->ij"}, [("n", "n", "m")], {"n": 3, "m": 2}),
    ("image.resize2d", {"size": (5, 7)}, [(1, 2, "h", "w")], {"h": 3, "w": 4}),
    ("nn.upsampling", {"scale_h": 2.0, "scale_w": 1.5}, [(1, 2, "h", "w")], {"h": 3, "w": 4}),
    ("nn.depth_to_space", {"block_size": 2, "mode": "CRD"}, [("n", 8, "h", "w")], {"n": 2, "h": 2, "w": 3}),
    ("layout_transform", {"src_layout": "NCHW", "dst_layout": "NCHW4c"}, [("n", "c", 2, 2)], {"n": 2, "c": 6}),
]  # fmt: skip
INTEGERS = {"take": 1, "gather_nd": 1, "scatter_elements": 1, "scatter_nd": 1}


@pytest.mark.parametrize(("name", "attrs", "shapes", "sizes"), SYMBOLIC)
@pytest.mark.shared(3)
def test_a_rule_that_holds_for_literals_holds_for_symbols(
    name: str, attrs: dict[str, Any], shapes: list[tuple[Any, ...]], sizes: dict[str, int]
) -> None:
    dims = {k: DimVar(k, lo=0) for k in sizes}
    rng, at = np.random.default_rng(2), INTEGERS.get(name)
    types = [tuple(dims.get(d, d) for d in s) for s in shapes]
    args: list[Any] = [rng.standard_normal(tuple(sizes.get(d, d) for d in s)) for s in shapes]
    if at is not None:
        args[at] = rng.integers(-3, 3, args[at].shape)
    floats = [n for n in range(len(args)) if n != at]

    def differentiated(shapes: list[Any]) -> Module:
        b = Builder()
        params = [b.var(f"x{n}", s, x.dtype) for n, (s, x) in enumerate(zip(shapes, args, strict=True))]
        return vjp(Module.from_expr(b.function(params, b.op(name)(*params, **attrs))), floats)

    known, unknown = (differentiated([x.shape for x in args]), differentiated(types))
    value = evaluate(program(name, attrs, args), args)
    dy = [rng.standard_normal(v.shape) for v in (value if isinstance(value, tuple) else (value,))]
    given = [*args, tuple(dy) if isinstance(value, tuple) else dy[0]]
    wanted = flat(evaluate(known, given)[1])
    for got in (flat(evaluate(unknown, given)[1]), flat(legato.compile(unknown)(*given))[len(dy) :]):
        for x, y in zip(got, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-12)


def flat(value: Any) -> list[Any]:
    """The arrays of a result."""
    return [x for v in value for x in flat(v)] if isinstance(value, tuple | list) else [np.asarray(value)]
