"""Operators of training: steps of optimisers beside their formulas, and what Dropout drops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import legato
from legato.base.errors import ImportModelError, LegatoError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.peer import Array, legato_outputs, model, value

RNG = np.random.default_rng(6)
DOMAIN = "ai.onnx.preview.training"


def f(*shape: int, dtype: Any = np.float64) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def step(operator: str, tensors: list[Array], outputs: int, t: int, **attributes: Any) -> list[Array]:
    """What a step makes, with the count as an input."""
    feeds = {"r": np.array(0.1), "t": np.array(t)} | {f"x{n}": x for n, x in enumerate(tensors)}
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(operator, list(feeds), results, domain=DOMAIN, **attributes)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    proto = model([node], [value(n, a.shape, str(a.dtype)) for n, a in feeds.items()], results, opset_imports=opsets)
    return list(legato_outputs(proto, feeds))


@pytest.mark.parametrize("t", [0, 3])
def test_adam(t: int) -> None:
    xs, gs, vs, hs = ([f(2), f(3)] for _ in range(4))
    hs = [h * h for h in hs]
    found = step("Adam", [*xs, *gs, *vs, *hs], 6, t, norm_coefficient=0.2, norm_coefficient_post=0.1)
    for n, (x, g, v, h) in enumerate(zip(xs, gs, vs, hs, strict=True)):
        alpha, beta = np.float32(0.9), np.float32(0.999)
        g = g + np.float32(0.2) * x
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        rate = 0.1 * np.sqrt(1 - beta**t) / (1 - alpha**t) if t else 0.1
        x = (1 - np.float32(0.1)) * (x - rate * v / (np.sqrt(h) + np.float32(1e-6)))
        for k, want in enumerate((x, v, h)):
            np.testing.assert_allclose(found[2 * k + n], want, rtol=1e-5)


def test_adagrad() -> None:
    x, g, h = f(2), f(2), f(2) ** 2
    found = step("Adagrad", [x, g, h], 2, 3, decay_factor=0.5, norm_coefficient=0.25)
    g = g + 0.25 * x
    h = h + g * g
    np.testing.assert_allclose(found[0], x - 0.1 / (1 + 3 * 0.5) * g / (np.sqrt(h) + 1e-6), rtol=1e-6)
    np.testing.assert_allclose(found[1], h, rtol=1e-6)


@pytest.mark.parametrize(("mode", "t"), [("standard", 0), ("standard", 2), ("nesterov", 2)])
def test_momentum(mode: str, t: int) -> None:
    x, g, v = f(2), f(2), f(2)
    found = step("Momentum", [x, g, v], 2, t, alpha=0.5, beta=0.75, mode=mode, norm_coefficient=0.25)
    g = g + 0.25 * x
    v = 0.5 * v + (0.75 if t else 1) * g
    np.testing.assert_allclose(found[0], x - 0.1 * (v if mode == "standard" else g + 0.5 * v))
    np.testing.assert_allclose(found[1], v)


def test_optimisers_that_make_no_sense() -> None:
    with pytest.raises(ImportModelError, match="4 tensors beside the rate"):
        step("Adagrad", [f(2)] * 4, 2, 0)
    with pytest.raises(ImportModelError, match="mode is 'own'"):
        step("Momentum", [f(2)] * 3, 2, 0, alpha=0.5, beta=0.5, mode="own", norm_coefficient=0.0)
    with pytest.raises(LegatoError, match="a tensor of an optimiser"):
        step("Adagrad", [f(2), f(3), f(2)], 2, 0)


def test_gradients_are_not_imported() -> None:
    with pytest.raises(UnsupportedError, match=r"legato\.grad"):
        step("Gradient", [f(2)], 1, 0, xs=["r"], y="t")


def dropout(ratio: float | None, *, training: bool | None, seed: int | None = None, n: int = 4000) -> Any:
    """The model, with the mask as its second result; training is an input where it is None."""
    node = helper.make_node("Dropout", ["x", "" if ratio is None else "ratio", "training"], ["y", "mask"],
                            **({} if seed is None else {"seed": seed}))  # fmt: skip
    weights = {"ratio": np.array(ratio, np.float32)} if ratio is not None else {}
    inputs = [value("x", ("n",))]
    if training is None:
        inputs.append(value("training", (), "bool"))
    else:
        weights["training"] = np.array(training)
    return model([node], inputs, ("y", "mask"), weights)


@pytest.mark.parametrize("ratio", [None, 0.25, 0.0, 1.0])
def test_dropout(ratio: float | None) -> None:
    x, share = f(4000, dtype=np.float32), 0.5 if ratio is None else ratio
    y, mask = legato_outputs(dropout(ratio, training=True), {"x": x})
    assert abs(1 - mask.mean() - share) < 0.04
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(y, np.where(mask, x / np.float32(1 - share), 0), rtol=1e-6)


def test_dropout_at_run_time() -> None:
    x = f(50, dtype=np.float32)
    run = legato.compile(from_onnx(dropout(0.5, training=None)))
    y, mask = run(x, np.array(False))
    np.testing.assert_array_equal(y, x)
    assert mask.all()
    first, second = run(x, np.array(True)), run(x, np.array(True))
    np.testing.assert_array_equal(first[1], second[1])
    assert 0 < first[1].sum() < 50


def test_seeds_of_dropout() -> None:
    x = f(50, dtype=np.float32)
    masks = [legato_outputs(dropout(0.5, training=True, seed=s), {"x": x})[1] for s in (1, 1, 2)]
    np.testing.assert_array_equal(masks[0], masks[1])
    assert (masks[0] != masks[2]).any()
