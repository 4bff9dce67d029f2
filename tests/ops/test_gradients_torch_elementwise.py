"""Gradients of elementwise operators, activations, reductions, softmax, scans and sorts: as PyTorch has them, at kinks,
ties and zeros too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from legato.autodiff import vjp
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.module import Module

torch = pytest.importorskip("torch")
F = torch.nn.functional
NAN, INF = float("nan"), float("inf")

RNG = np.random.default_rng(7)
KINKS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 2.0, 30.0, -30.0, 700.0, -700.0])
LEFT = np.array([[1.0, 2.0, -2.0, 0.0], [0.5, 2.5, 0.0, -0.7], [0.0, -1.0, 3.0, 7.25]])
RIGHT = np.array([1.0, -2.0, 2.0, 0.0])
BASES = np.array([[0.0, 0.5, 2.0, 1.0], [3.0, 0.0, 0.25, 0.0]])
X = RNG.standard_normal((3, 4))
CUBE = RNG.standard_normal((2, 3, 4))
TIES = np.array([[1.0, 3.0, 3.0, -1.0], [2.0, 2.0, 2.0, 2.0], [0.0, -1.0, -1.0, 0.5]])
ZEROS = np.array([[2.0, 0.0, 3.0, -1.0], [0.0, 1.5, 0.0, 2.0], [1.5, -2.0, 0.5, 4.0]])
WIDE = RNG.standard_normal((1, 6, 2, 2))


def both(name: str, x: Any, f: Callable[[Any], Any], **attrs: Any) -> Any:
    """One case of an operator of one tensor."""
    return pytest.param(name, attrs, [x], f, id=f"{name}-{attrs}")


def pair(name: str, x: Any, y: Any, f: Callable[..., Any], **attrs: Any) -> Any:
    """One case of an operator of two tensors."""
    return pytest.param(name, attrs, [x, y], f, id=f"{name}-{attrs}-{x.shape}-{y.shape}")


def l2(x: Any) -> Any:
    """x/√max(Σx², 0.5) along the last axis."""
    return x / (x * x).sum(-1, keepdim=True).clamp_min(0.5).sqrt()


CASES = [
    *(pair(name, x, y, f) for x, y in ((LEFT, RIGHT), (RIGHT, LEFT), (LEFT[:, :1], LEFT[:2, None, :])) for name, f in (
        ("maximum", torch.maximum), ("minimum", torch.minimum))),
    *(pair(name, x, y, f) for x, y in ((LEFT, RIGHT[:3, None] + 0.3), (X, CUBE)) for name, f in (
        ("mod", torch.fmod), ("trunc_mod", torch.fmod), ("floor_mod", torch.remainder),
        ("floor_divide", lambda a, b: torch.div(a, b, rounding_mode="floor")),
        ("trunc_divide", lambda a, b: torch.div(a, b, rounding_mode="trunc")))),
    pair("power", BASES, np.array([0.0, 2.0, -1.5, 1.0]), torch.pow),
    pair("power", BASES, np.array([[2.0], [3.0]]), torch.pow),
    pair("power", BASES[:, 1:], np.array(0.0), torch.pow),
    pair("power", np.array([1e-320, -1e-320, NAN, -0.0]), np.zeros(4), torch.pow),
    pair("power", np.array([-2.0, -1.0, 2.0]), np.array([2.0, 3.0, 3.0]), torch.pow),
    both("nn.relu", KINKS, F.relu),
    both("nn.leaky_relu", KINKS, lambda x: F.leaky_relu(x, 0.25)),
    both("nn.leaky_relu", KINKS, lambda x: F.leaky_relu(x, 0.0), alpha=0.0),
    both("nn.leaky_relu", KINKS, lambda x: torch.where(x > 0, x, -0.5 * x), alpha=-0.5),
    both("nn.elu", KINKS, F.elu), both("nn.elu", KINKS, lambda x: F.elu(x, 0.3), alpha=0.3),
    both("nn.elu", KINKS, lambda x: torch.where(x > 0, x, -0.3 * torch.expm1(x.clamp(max=0))), alpha=-0.3),
    both("nn.celu", KINKS, lambda x: F.celu(x, 2.0), alpha=2.0), both("nn.selu", KINKS, F.selu),
    both("nn.gelu", KINKS, F.gelu),
    both("nn.gelu", KINKS, lambda x: F.gelu(x, approximate="tanh"), approximate="tanh"),
    both("nn.softplus", KINKS, F.softplus), both("nn.softplus", KINKS, lambda x: F.softplus(x, 3.0), beta=3.0),
    both("nn.hard_sigmoid", KINKS, lambda x: F.relu6(x + 3) / 6, alpha=1 / 6),
    both("nn.hard_swish", KINKS, F.hardswish),
    both("nn.thresholded_relu", KINKS, lambda x: F.threshold(x, 0.5, 0.0), alpha=0.5),
    both("nn.silu", KINKS, F.silu), both("nn.mish", KINKS, F.mish), both("nn.softsign", KINKS, F.softsign),
    both("clip", KINKS, lambda x: x.clamp(-1.0, 0.5), a_min=-1.0, a_max=0.5),
    both("clip", KINKS, lambda x: x.clamp(min=0.0), a_min=0.0),
    both("clip", KINKS, lambda x: x.clamp(max=0.5), a_max=0.5),
    pair("nn.prelu", LEFT, np.array([0.25, -1.0, 0.0, 2.0]), lambda x, w: torch.where(x > 0, x, x * w), axis=-1),
    pair("nn.prelu", CUBE, np.array([0.25, -1.0, 2.0]), F.prelu),
    pair("nn.bias_add", CUBE, RNG.standard_normal(3), lambda x, w: x + w[:, None]),
    pair("nn.bias_add", CUBE, RNG.standard_normal(4), torch.add, axis=-1),
    *(both(name, x, f, **attrs) for x in (TIES, X) for name, f, attrs in (
        ("max", torch.amax, {}), ("min", torch.amin, {}),
        ("max", lambda v: v.amax(0), {"axis": 0}), ("min", lambda v: v.amin(1, True), {"axis": 1, "keepdims": True}))),
    both("max", CUBE.round(), lambda x: x.amax((0, 2)), axis=1, exclude=True),
    *(both("prod", x, f, **attrs) for x in (ZEROS, X) for f, attrs in (
        (torch.prod, {}), (lambda v: v.prod(0), {"axis": 0}),
        (lambda v: v.prod(1, True), {"axis": 1, "keepdims": True}))),
    both("prod", CUBE.round(), lambda x: x.prod(2).prod(0), axis=(0, 2)),
    both("mean", CUBE, lambda x: x.mean((0, 2)), axis=(0, -1)), both("mean", CUBE, torch.mean),
    both("nn.softmax", X, lambda x: x.softmax(-1)), both("nn.softmax", CUBE * 50, lambda x: x.softmax(1), axis=1),
    both("nn.log_softmax", X, lambda x: x.log_softmax(-1)),
    both("nn.log_softmax", CUBE * 50, lambda x: x.log_softmax(0), axis=0),
    both("nn.l2_normalize", X * 0.5, l2, eps=0.5, axis=-1),
    both("nn.l2_normalize", np.zeros((2, 3)), l2, eps=0.5, axis=-1),
    both("nn.lrn", WIDE, lambda x: F.local_response_norm(x, 5, 0.5, 0.75, 2.0), alpha=0.5),
    both("nn.lrn", WIDE, lambda x: F.local_response_norm(x, 3, 2.0, 0.5, 1.0), size=3, alpha=2.0, beta=0.5, bias=1.0),
    both("cumsum", X, lambda x: x.cumsum(1), axis=1), both("cumsum", X, lambda x: x.flatten().cumsum(0)),
    *(both("cumprod", x, f, **attrs) for x in (X, ZEROS) for f, attrs in (
        (lambda v: v.cumprod(1), {"axis": 1}), (lambda v: v.flatten().cumprod(0), {}),
        (lambda v: F.pad(v.cumprod(-1)[:, :-1], (1, 0), value=1.0), {"axis": -1, "exclusive": True}))),
    both("sort", CUBE, lambda x: x.sort(1).values, axis=1),
    both("sort", TIES, lambda x: torch.sort(x, stable=True, descending=True).values, is_ascend=False),
    both("topk", X, lambda x: x.topk(2).values, k=2, ret_type="values"),
    both("topk", X, lambda x: x.topk(2, dim=0, largest=False).values, k=2, axis=0, is_ascend=True, ret_type="values"),
    both("full_like", np.array(2.0), lambda v: v.expand(2, 3)),
    both("collapse_sum_to", CUBE, lambda x: x.sum((0, 2), keepdim=True)[0], shape=(3, 1)),
]  # fmt: skip


def program(name: str, attrs: dict[str, Any], args: list[Any]) -> Module:
    """@main that calls the operator."""
    b = Builder()
    params = [b.var(f"x{n}", x.shape, "float64") for n, x in enumerate(args)]
    like = [b.constant(np.zeros((2, 3)))] if name == "full_like" else []
    return Module.from_expr(b.function(params, b.op(name)(*like, *params, **attrs)))


@pytest.mark.parametrize(("name", "attrs", "args", "f"), CASES)
def test_gradients_are_those_of_pytorch(
    name: str, attrs: dict[str, Any], args: list[Any], f: Callable[..., Any]
) -> None:
    given = [torch.tensor(x, requires_grad=True) for x in args]
    y = f(*given)
    dy = np.random.default_rng(1).standard_normal(tuple(y.shape))
    y.backward(torch.tensor(dy)) if y.requires_grad else None
    wanted = [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in given]
    found = evaluate(vjp(program(name, attrs, args)), [*args, dy])[1]
    for got, want in zip(found, wanted, strict=True):
        assert np.array_equal(np.isnan(got), np.isnan(want))
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10 * max(1.0, np.nanmax(np.abs(want), initial=0)))


@pytest.mark.parametrize("name", ["max", "min"])
def test_nans_share_the_gradient_of_an_extreme(name: str) -> None:
    x = np.array([[1.0, NAN, 3.0, NAN], [INF, INF, -INF, -INF]])
    (got,) = evaluate(vjp(program(name, {"axis": 1}, [x])), [x, np.ones(2)])[1]
    np.testing.assert_array_equal(got, [[0, 0.5, 0, 0.5], [0.5, 0.5, 0, 0] if name == "max" else [0, 0, 0.5, 0.5]])


@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.0, -1.0, [0.0, 1.0, 2.0, 0.5]])
def test_powers_with_known_exponents_and_bases(exponent: Any) -> None:
    x, z = LEFT + 3, np.array(exponent)
    b = Builder()
    param = b.var("x", x.shape, "float64")
    mod = Module.from_expr(b.function([param], b.tuple_([b.power(param, z), b.power(np.abs(z), param)])))
    given = torch.tensor(x, requires_grad=True)
    y = given ** torch.tensor(z), torch.tensor(np.abs(z)) ** given
    (y[0].sum() + 2 * y[1].sum()).backward()
    ones = np.ones(x.shape)
    (got,) = evaluate(vjp(mod), [x, (ones, 2 * ones)])[1]
    np.testing.assert_allclose(got, given.grad.numpy(), rtol=1e-12)


def test_the_gradient_of_a_power_moves_with_an_exponent_of_zero() -> None:
    """Where PyTorch says that it does not."""
    x, z = np.array([0.5, 2.0]), np.zeros(2)
    twice = vjp(vjp(program("power", {}, [x, z])))
    moves = evaluate(twice, [x, z, np.ones(2), (np.zeros(2), (np.ones(2), np.zeros(2)))])[1]
    np.testing.assert_allclose(moves[1], 1 / x)


SECOND = [
    both("prod", ZEROS, torch.prod), both("prod", ZEROS, lambda x: x.prod(0), axis=0),
    both("cumprod", ZEROS, lambda x: x.cumprod(1), axis=1),
    both("cumsum", X, lambda x: x.cumsum(0), axis=0),
    both("nn.softmax", X, lambda x: x.softmax(-1)), both("nn.log_softmax", CUBE, lambda x: x.log_softmax(1), axis=1),
    both("max", TIES, lambda x: x.amax(0), axis=0), both("mean", X, torch.mean),
    both("nn.l2_normalize", X * 0.5, l2, eps=0.5, axis=-1),
    both("nn.lrn", WIDE, lambda x: F.local_response_norm(x, 3, 2.0, 0.5, 1.0), size=3, alpha=2.0, beta=0.5, bias=1.0),
    both("nn.gelu", KINKS, F.gelu), both("nn.elu", KINKS[KINKS != 0], F.elu), both("nn.silu", KINKS, F.silu),
    both("nn.softplus", KINKS, F.softplus), both("nn.mish", KINKS, F.mish), both("nn.relu", KINKS, F.relu),
    both("sort", CUBE, lambda x: x.sort(1).values, axis=1),
    pair("power", np.abs(LEFT) + 0.1, np.array([3.0, 2.0, -1.5, 0.5]), torch.pow),
    pair("maximum", LEFT, RIGHT, torch.maximum), pair("floor_mod", LEFT + 0.3, RIGHT[:3, None] + 0.6, torch.remainder),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attrs", "args", "f"), SECOND)
def test_second_derivatives_are_those_of_pytorch(
    name: str, attrs: dict[str, Any], args: list[Any], f: Callable[..., Any]
) -> None:
    """Of the gradients, by the arguments and by the cotangent."""
    given = [torch.tensor(x, requires_grad=True) for x in args]
    y = f(*given)
    rng = np.random.default_rng(1)
    dy, weights = rng.standard_normal(tuple(y.shape)), [rng.standard_normal(x.shape) for x in args]
    seed = torch.tensor(dy, requires_grad=True)
    first = torch.autograd.grad(y, given, seed, create_graph=True)
    total = sum((g * torch.tensor(w)).sum() for g, w in zip(first, weights, strict=True))
    wanted = torch.autograd.grad(total, [*given, seed], allow_unused=True)
    twice = vjp(vjp(program(name, attrs, args)))
    found = evaluate(twice, [*args, dy, (np.zeros(dy.shape), tuple(weights))])[1]
    for got, want, like in zip(found, wanted, [*args, dy], strict=True):
        want = np.zeros(like.shape) if want is None else want.numpy()
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10 * max(1.0, np.abs(want).max()))
