"""Gradients of the layers of networks are PyTorch's, in float64: convolutions, pooling, normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import legato
from legato.arith.expr import Var
from legato.autodiff import vjp
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import Expr
from legato.ir.module import Module
from legato.ir.types import Dim

torch = pytest.importorskip("torch")
F = pytest.importorskip("torch.nn.functional")

Array = np.ndarray[Any, Any]
Layer = Callable[..., Expr]


def program(layer: Layer, shapes: Sequence[Sequence[int | Dim]], dtype: str) -> Module:
    """The function `layer(b, x0, x1, …)`, differentiated: its last parameter is the cotangent of its result."""
    b = Builder()
    params = [b.var(f"x{n}", shape, dtype) for n, shape in enumerate(shapes)]
    return vjp(Module.from_expr(b.function(params, layer(b, *params))))


def of_torch(twin: Callable[..., Any], values: Sequence[Array]) -> tuple[Array, list[Array]]:
    """A cotangent of the twin's result, and its gradients."""
    given = [torch.from_numpy(v).requires_grad_() for v in values]
    y = twin(*given)
    dy = np.random.default_rng(1).standard_normal(tuple(y.shape)).astype(values[0].dtype)
    found = torch.autograd.grad(y, given, torch.from_numpy(dy))
    return dy, [g.numpy() for g in found]


def random(*shapes: Sequence[int], dtype: str = "float64") -> list[Array]:
    """Arrays of normal numbers."""
    rng = np.random.default_rng(0)
    return [rng.standard_normal(tuple(s)).astype(dtype) for s in shapes]


def assert_same(got: Sequence[Array], wanted: Sequence[Array], tolerance: float = 1e-10) -> None:
    """Equal within `tolerance` of the largest element."""
    for g, w in zip(got, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=0, atol=tolerance * max(1.0, np.abs(w).max(initial=0.0)))


def check(layer: Layer, twin: Callable[..., Any], values: Sequence[Array]) -> None:
    """The gradients of `layer` are those of `twin`."""
    dy, wanted = of_torch(twin, values)
    _, found = evaluate(program(layer, [v.shape for v in values], "float64"), [*values, dy])
    assert_same(found, wanted)


# ------------------------------------------------------------------ convolutions


CONVOLUTIONS = [
    pytest.param(1, (2, 3, 9), (4, 3, 3), {"padding": 1}, id="1d"),
    pytest.param(1, (2, 4, 11), (6, 2, 2), {"stride": 3, "dilation": 2, "groups": 2}, id="1d-grouped"),
    pytest.param(2, (2, 3, 6, 7), (4, 3, 3, 3), {"padding": 1}, id="2d"),
    pytest.param(2, (2, 4, 8, 7), (6, 2, 3, 2), {"stride": (2, 3), "padding": (1, 2), "groups": 2}, id="2d-grouped"),
    pytest.param(2, (2, 4, 6, 6), (8, 1, 3, 3), {"stride": 2, "padding": 1, "groups": 4}, id="2d-depthwise"),
    pytest.param(2, (1, 2, 9, 8), (3, 2, 2, 3), {"dilation": (3, 2), "padding": (2, 0)}, id="2d-dilated"),
    pytest.param(2, (1, 3, 8, 8), (2, 3, 1, 1), {"stride": 3}, id="2d-strided-1x1"),
    pytest.param(2, (1, 2, 4, 4), (2, 2, 2, 2), {"padding": 3}, id="2d-much-padding"),
    pytest.param(3, (1, 2, 4, 5, 5), (2, 2, 2, 3, 2), {"stride": (1, 2, 2), "padding": (1, 0, 1)}, id="3d"),
]


def attributes(given: dict[str, Any], rank: int) -> dict[str, Any]:
    """PyTorch's arguments as attributes of an operator."""
    names = {"stride": "strides", "padding": "padding", "dilation": "dilation", "output_padding": "output_padding"}
    spread = {names[k]: v if isinstance(v, tuple) else (v,) * rank for k, v in given.items() if k in names}
    return {**spread, **({"groups": given["groups"]} if "groups" in given else {})}


@pytest.mark.parametrize(("rank", "data", "weight", "given"), CONVOLUTIONS)
def test_convolution(rank: int, data: tuple[int, ...], weight: tuple[int, ...], given: dict[str, Any]) -> None:
    attrs = attributes(given, rank)
    check(lambda b, x, w: b.op(f"nn.conv{rank}d")(x, w, **attrs),
          lambda x, w: getattr(F, f"conv{rank}d")(x, w, **given), random(data, weight))  # fmt: skip


def test_convolution_of_asymmetric_padding_in_other_layouts() -> None:
    def layer(b: Builder, x: Expr, w: Expr) -> Expr:
        return b.nn.conv2d(x, w, strides=(2, 1), padding=(1, 0, 2, 3), data_layout="NHWC", kernel_layout="HWIO",
                           out_layout="NCHW")  # fmt: skip

    def twin(x: Any, w: Any) -> Any:
        padded = F.pad(x.permute(0, 3, 1, 2), (0, 3, 1, 2))
        return F.conv2d(padded, w.permute(3, 2, 0, 1), stride=(2, 1))

    check(layer, twin, random((2, 6, 5, 3), (3, 2, 3, 4)))


@pytest.mark.parametrize(
    ("data", "weight", "given"),
    [
        ((1, 3, 4, 4), (3, 2, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ((2, 4, 3, 3), (4, 3, 2, 3), {"groups": 2, "stride": (1, 2), "dilation": (2, 1)}),
        ((1, 2, 3, 4), (2, 1, 3, 2), {"stride": 3, "padding": 1, "output_padding": (2, 0)}),
    ],
)
def test_transposed_convolution(data: tuple[int, ...], weight: tuple[int, ...], given: dict[str, Any]) -> None:
    attrs = attributes(given, 2)
    check(lambda b, x, w: b.nn.conv2d_transpose(x, w, **attrs),
          lambda x, w: F.conv_transpose2d(x, w, **given), random(data, weight))  # fmt: skip


def test_second_derivative_of_a_convolution() -> None:
    """Each of the three contractions is differentiated once more."""

    def layer(b: Builder, x: Expr, w: Expr) -> Expr:
        y = b.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1))
        return b.sum(b.multiply(b.multiply(y, y), y))

    def twin(x: Any, w: Any) -> Any:
        return (F.conv2d(x, w, stride=2, padding=1) ** 3).sum()

    def of_gradient(x: Any, w: Any) -> Any:
        return sum((g**2).sum() for g in torch.autograd.grad(twin(x, w), (x, w), create_graph=True))

    values = random((1, 2, 5, 5), (3, 2, 3, 3))
    b = Builder()
    params = [b.var(f"x{n}", v.shape, "float64") for n, v in enumerate(values)]
    first = legato.grad(Module.from_expr(b.function(params, layer(b, *params))))
    body = first["main"]
    pair = b.let("g", b.apply(body, params))
    squares = [b.sum(b.multiply(b.get(pair, n), b.get(pair, n))) for n in range(2)]
    second = legato.grad(Module.from_expr(b.function(params, b.add(*squares))))
    given = [torch.from_numpy(v).requires_grad_() for v in values]
    wanted = torch.autograd.grad(of_gradient(*given), given)
    assert_same(evaluate(second, values), [g.numpy() for g in wanted], 1e-9)


@pytest.mark.parametrize("stride", [1, 2])
def test_compiled_convolution_of_symbolic_extents(stride: int) -> None:
    """In float32: batch, height and width are known when the program runs."""
    batch, height, width = Var("n", lo=1), Var("h", lo=1), Var("w", lo=1)
    attrs = {"strides": (stride, stride), "padding": (1, 1)}
    mod = program(lambda b, x, w: b.nn.conv2d(x, w, **attrs), [(batch, 3, height, width), (5, 3, 3, 3)], "float32")
    exe = legato.compile(mod)
    for shape in ((2, 3, 8, 7), (1, 3, 5, 6)):
        values = random(shape, (5, 3, 3, 3), dtype="float32")
        dy, wanted = of_torch(lambda x, w: F.conv2d(x, w, stride=stride, padding=1), values)
        assert_same(exe(*values, dy)[1], wanted, 1e-5)


@pytest.mark.parametrize("padding", [(0, 0), (1, 2)])
def test_gradient_of_a_weight_gradient_of_some_windows(padding: tuple[int, int]) -> None:
    """`grad` may have fewer windows than fit into the data, how many fewer is known when the program runs."""

    def layer(b: Builder, grad: Expr, x: Expr) -> Expr:
        return b.nn.conv1d_backward_weight(grad, x, kernel_size=(3,), strides=(2,), padding=padding)

    symbolic = program(layer, [(2, 4, Var("m")), (2, 3, Var("w"))], "float64")
    for windows, width in ((1, 9), (2, 9), (3, 8), (3, 9)):
        values = random((2, 4, windows), (2, 3, width), (4, 3, 3))
        known = program(layer, [v.shape for v in values[:2]], "float64")
        assert_same(evaluate(symbolic, values)[1], evaluate(known, values)[1])


# ------------------------------------------------------------------ pooling


@pytest.mark.parametrize(
    ("size", "stride", "padding", "dilation", "ceil"),
    [(3, 2, 1, 1, False), (2, 2, 0, 1, True), (2, 3, 0, 1, True), (3, 1, 1, 2, False), (2, 2, 1, 1, False)],
)
def test_max_pooling_gives_ties_to_the_first(size: int, stride: int, padding: int, dilation: int, ceil: bool) -> None:
    values = [np.round(v) for v in random((2, 3, 8, 7))]  # with many ties
    attrs = {"pool_size": (size, size), "strides": (stride,) * 2, "padding": (padding,) * 2,
             "dilation": (dilation,) * 2, "ceil_mode": ceil}  # fmt: skip
    check(lambda b, x: b.nn.max_pool2d(x, **attrs),
          lambda x: F.max_pool2d(x, size, stride, padding, dilation, ceil_mode=ceil), values)  # fmt: skip


def test_max_pooling_of_infinities() -> None:
    """A window of the smallest elements chooses one of the data, not of the padding."""
    (values,) = random((1, 1, 4, 4))
    values[...] = np.where(values > 0.5, values, -np.inf)
    check(lambda b, x: b.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1)),
          lambda x: F.max_pool2d(x, 3, 2, 1), [values])  # fmt: skip


@pytest.mark.parametrize("include_pad", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
def test_average_pooling(include_pad: bool, ceil: bool) -> None:
    attrs = {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 1), "ceil_mode": ceil,
             "count_include_pad": include_pad}  # fmt: skip
    check(lambda b, x: b.nn.avg_pool2d(x, **attrs),
          lambda x: F.avg_pool2d(x, (3, 2), 2, 1, ceil, include_pad), random((2, 3, 8, 7)))  # fmt: skip


@pytest.mark.parametrize("rank", [1, 3])
def test_pooling_in_other_dimensions(rank: int) -> None:
    (values,) = random((2, 2, 5, 6, 7)[: rank + 2])
    for kind in ("max", "avg"):
        extra = {"count_include_pad": False} if kind == "avg" else {}
        check(lambda b, x, kind=kind: b.op(f"nn.{kind}_pool{rank}d")(
                  x, pool_size=(2,) * rank, strides=(2,) * rank, padding=(1,) * rank),
              lambda x, kind=kind, extra=extra: getattr(F, f"{kind}_pool{rank}d")(x, 2, 2, 1, **extra),
              [values])  # fmt: skip


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (5, 7), (2, 9)])
@pytest.mark.parametrize("kind", ["max", "avg"])
def test_adaptive_pooling(kind: str, size: tuple[int, int]) -> None:
    values = [np.round(v) for v in random((2, 2, 5, 7))]  # with ties
    check(lambda b, x: b.op(f"nn.adaptive_{kind}_pool2d")(x, output_size=size),
          lambda x: getattr(F, f"adaptive_{kind}_pool2d")(x, size), values)  # fmt: skip


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_global_pooling(kind: str) -> None:
    check(lambda b, x: b.op(f"nn.global_{kind}_pool2d")(x),
          lambda x: getattr(F, f"adaptive_{kind}_pool2d")(x, 1), random((2, 3, 4, 5)))  # fmt: skip


def test_compiled_pooling_of_symbolic_extents() -> None:
    """In float32; a maximum has the same bits for any number of threads."""
    batch, height = Var("n", lo=1), Var("h", lo=1)

    def layer(b: Builder, x: Expr) -> Expr:
        y = b.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
        return b.nn.adaptive_avg_pool2d(b.nn.avg_pool2d(y, pool_size=(2, 2)), output_size=(2, 2))

    def twin(x: Any) -> Any:
        return F.adaptive_avg_pool2d(F.avg_pool2d(F.max_pool2d(x, 3, 2, 1), 2, 1), 2)

    mod = program(layer, [(batch, 5, height, 19)], "float32")
    one, two = legato.compile(mod, threads=1), legato.compile(mod, threads=2)
    for shape in ((3, 5, 17, 19), (1, 5, 12, 19)):
        values = random(shape, dtype="float32")
        dy, wanted = of_torch(twin, values)
        (found,) = one(*values, dy)[1]
        assert_same([found], wanted, 1e-6)
        np.testing.assert_array_equal(two(*values, dy)[1][0], found)


# ------------------------------------------------------------------ normalisation


def test_layer_norm() -> None:
    check(lambda b, x, g, o: b.nn.layer_norm(x, g, o, axis=(-2, -1), epsilon=1e-3),
          lambda x, g, o: F.layer_norm(x, (3, 4), g, o, 1e-3), random((2, 3, 4), (3, 4), (3, 4)))  # fmt: skip


def test_group_norm() -> None:
    check(lambda b, x, g, o: b.nn.group_norm(x, g, o, num_groups=2),
          lambda x, g, o: F.group_norm(x, 2, g, o), random((2, 4, 3, 2), (4,), (4,)))  # fmt: skip


def test_instance_norm() -> None:
    check(lambda b, x, g, o: b.nn.instance_norm(x, g, o),
          lambda x, g, o: F.instance_norm(x, weight=g, bias=o), random((2, 3, 4, 2), (3,), (3,)))  # fmt: skip


def test_rms_norm() -> None:
    check(lambda b, x, w: b.nn.rms_norm(x, w, epsilon=1e-3),
          lambda x, w: F.rms_norm(x, (5,), w, 1e-3), random((2, 3, 5), (5,)))  # fmt: skip


def test_batch_norm_in_inference() -> None:
    *values, variance = random((2, 3, 4), (3,), (3,), (3,), (3,))
    variance = np.abs(variance) + 0.1

    def twin(x: Any, g: Any, o: Any, mean: Any, var: Any) -> Any:
        return (x - mean[:, None]) / torch.sqrt(var[:, None] + 1e-5) * g[:, None] + o[:, None]

    check(lambda b, *args: b.get(b.nn.batch_norm(*args), 0), twin, [*values, variance])


def test_batch_norm_in_training() -> None:
    values = random((4, 3, 5), (3,), (3,))
    check(lambda b, x, g, o: b.get(b.nn.batch_norm_train(x, g, o), 0),
          lambda x, g, o: F.batch_norm(x, None, None, g, o, training=True), values)  # fmt: skip

    def of_statistics(b: Builder, x: Expr, g: Expr, o: Expr) -> Expr:
        y = b.nn.batch_norm_train(x, g, o)
        return b.add(b.add(b.sum(b.get(y, 0), axis=(0, 2)), b.multiply(b.get(y, 1), 3.0)), b.get(y, 2))

    def twin(x: Any, g: Any, o: Any) -> Any:
        y = F.batch_norm(x, None, None, g, o, training=True)
        return y.sum((0, 2)) + 3 * x.mean((0, 2)) + x.var((0, 2), unbiased=False)

    check(of_statistics, twin, values)


def test_batch_norm_in_training_of_a_symbolic_batch() -> None:
    def layer(b: Builder, x: Expr, g: Expr, o: Expr) -> Expr:
        return b.get(b.nn.batch_norm_train(x, g, o), 0)

    exe = legato.compile(program(layer, [(Var("n", lo=1), 3, 5, 4), (3,), (3,)], "float32"))
    values = random((6, 3, 5, 4), (3,), (3,), dtype="float32")
    dy, wanted = of_torch(lambda x, g, o: F.batch_norm(x, None, None, g, o, training=True), values)
    assert_same(exe(*values, dy)[1], wanted, 1e-5)
