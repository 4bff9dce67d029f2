"""Losses: compiled as interpreted, values and gradients as PyTorch's, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import autodiff
from legato.base.errors import CompileError
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.expr import Function, Tuple
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ops import class_loss, loss
from tests.ops.test_ops import arguments, call, type_of

torch = pytest.importorskip("torch")
F = pytest.importorskip("torch.nn.functional")

OPS = [v for m in (loss, class_loss) for v in vars(m).values() if isinstance(v, Op) and v.expand]
RNG = np.random.default_rng(4)
X, T = RNG.normal(size=(3, 5)), RNG.normal(size=(3, 5))
X[0, :2] = T[0, :2] + [1.0, -0.5]  # at kinks of Huber's losses
SHARES = RNG.dirichlet(np.ones(5), 3)
SHARES[1] = [0, 0.5, 0.5, 0, 0]
CLASSES, GRID = np.array([4, 0, -100]), np.array([[0, 2], [-100, 1]])
WEIGHTS = RNG.uniform(0.5, 2, 5)
IMAGES = RNG.normal(size=(2, 3, 2))

Case = tuple[str, list[Any], dict[str, Any], Callable[..., Any]]
CASES: list[Case] = []
for r in ("none", "sum", "mean"):
    CASES += [
        ("mse_loss", [X, T], {"reduction": r}, lambda x, t, r=r: F.mse_loss(x, t, reduction=r)),
        ("huber_loss", [X, T], {"reduction": r, "delta": 0.5}, lambda x, t, r=r: F.huber_loss(x, t, r, 0.5)),
        ("smooth_l1_loss", [X, T], {"reduction": r}, lambda x, t, r=r: F.smooth_l1_loss(x, t, reduction=r)),
        ("smooth_l1_loss", [X, T], {"reduction": r, "beta": 0.0},
         lambda x, t, r=r: F.smooth_l1_loss(x, t, reduction=r, beta=0.0)),
        ("binary_cross_entropy_with_logits", [X * 50, SHARES], {"reduction": r},
         lambda x, t, r=r: F.binary_cross_entropy_with_logits(x, t, reduction=r)),
        ("nll_loss", [X, CLASSES, WEIGHTS], {"reduction": r}, lambda x, t, w, r=r: F.nll_loss(x, t, w, reduction=r)),
        ("nll_loss", [IMAGES, GRID, WEIGHTS[:3]], {"reduction": r, "ignore_index": 2},
         lambda x, t, w, r=r: F.nll_loss(x, torch.where(t < 0, 2, t), w, reduction=r, ignore_index=2)),
        ("softmax_cross_entropy", [X * 100, CLASSES], {"reduction": r},
         lambda x, t, r=r: F.cross_entropy(x, t, reduction=r)),
        ("softmax_cross_entropy", [IMAGES, GRID], {"reduction": r},
         lambda x, t, r=r: F.cross_entropy(x, t, reduction=r)),
    ]  # fmt: skip
for r in ("sum", "batchmean"):
    CASES.append(("kl_div", [X, SHARES], {"reduction": r}, lambda x, t, r=r: F.kl_div(x, t, reduction=r)))
CASES += [
    ("cross_entropy", [np.exp(X), SHARES], {}, lambda x, t: -(x.log() * t).sum() / 3),
    ("cross_entropy_with_logits", [X, SHARES], {}, lambda x, t: -(x * t).sum() / 3),
]


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_compiled_is_interpreted(op: Op) -> None:
    values = [arguments(op, s) for s in op.samples]
    calls = [call(op, v, s) for v, s in zip(values, op.samples, strict=True)]
    mod = Module.from_expr(Function(tuple(p for ps, _ in calls for p in ps), Tuple(tuple(e for _, e in calls))))
    flat = [x for v in values for x in v]
    for got, wanted in zip(legato.compile(mod)(*flat), evaluate(mod, flat), strict=True):
        rtol = 1e-5 if wanted.itemsize > 2 else 2e-3
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize(("name", "values", "attrs", "peer"), CASES)
def test_values_and_gradients_are_torchs(name: str, values: list[Any], attrs: dict[str, Any], peer: Any) -> None:
    is_float = [v.dtype == np.float64 and not (name == "nll_loss" and n) for n, v in enumerate(values)]
    given = [torch.tensor(v, requires_grad=f) for v, f in zip(values, is_float, strict=True)]
    wanted = peer(*given)
    dy = np.random.default_rng(1).normal(size=tuple(wanted.shape))
    wanted.backward(torch.tensor(dy))
    b = Builder()
    params = [b.var(f"x{n}", type_of(v)) for n, v in enumerate(values)]
    mod = autodiff.vjp(Module.from_expr(Function(tuple(params), b.call(f"nn.{name}", *params, **attrs))))
    y, grads = evaluate(mod, [*values, dy])
    np.testing.assert_allclose(y, wanted.detach().numpy(), rtol=1e-12, atol=1e-12)
    floats = [g for g in given if g.requires_grad]
    for got, t in zip(grads, floats, strict=name != "nll_loss"):  # PyTorch has no gradient of its weights
        if t.grad is not None and torch.isfinite(t.grad).all():
            scale = max(1.0, float(t.grad.abs().max()))
            np.testing.assert_allclose(got, t.grad.numpy(), rtol=0, atol=1e-10 * scale)


def test_symbolic_extents() -> None:
    text = """
    #[version = "0.0.5"]
    def @main(%x: Tensor[(n, c), float32], %t: Tensor[(n,), int64], %z: Tensor[(n, c), float32]) {
      nn.softmax_cross_entropy(%x, %t) + nn.mse_loss(%x, %z) + nn.kl_div(%z, %z * %z, reduction="batchmean")
    }
    """
    mod = autodiff.value_and_grad(legato.parse(text))
    x, z = (np.random.default_rng(n).uniform(0.1, 1, (4, 3)).astype(np.float32) for n in (0, 1))
    t = np.array([2, 0, 1, 5])
    wanted, got = evaluate(mod, [x, t, z]), legato.compile(mod)(x, t, z)
    np.testing.assert_allclose(np.asarray(got[0]), wanted[0], rtol=1e-5)
    for g, w in zip(got[1], wanted[1], strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=1e-4, atol=1e-6)
    a, c = torch.tensor(x, requires_grad=True), torch.tensor(z, requires_grad=True)
    kept = torch.tensor(np.where(t < 3, t, -100))
    y = F.cross_entropy(a, kept) + F.mse_loss(a, c) + F.kl_div(c, c * c, reduction="batchmean")
    y.backward()
    np.testing.assert_allclose(wanted[0], y.item(), rtol=1e-5)
    for g, w in zip(wanted[1], (a.grad, c.grad), strict=True):
        assert w is not None
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "values", "attrs", "wanted"),
    [
        ("mse_loss", [X, T], {"reduction": "median"}, "reduction"),
        ("mse_loss", [X, T[:2]], {}, "targets"),
        ("huber_loss", [X, T], {"delta": 0.0}, "got delta 0.0, wanted more than 0"),
        ("smooth_l1_loss", [X, T], {"beta": -1.0}, "got beta -1.0, wanted at least 0"),
        ("cross_entropy", [X[0], T[0]], {}, "predictions"),
        ("nll_loss", [X, CLASSES, WEIGHTS[:3]], {}, "weights"),
        ("nll_loss", [X, X[:, 0], WEIGHTS], {}, "targets"),
        ("softmax_cross_entropy", [X, CLASSES[:2]], {}, "targets"),
        ("kl_div", [X[0, 0], X[0, 0]], {"reduction": "batchmean"}, "no first dimension"),
    ],
)
def test_what_is_refused(name: str, values: list[Any], attrs: dict[str, Any], wanted: str) -> None:
    b = Builder()
    with pytest.raises(CompileError, match=wanted):
        b.call(f"nn.{name}", *(b.var("x", type_of(np.asarray(v))) for v in values), **attrs)
