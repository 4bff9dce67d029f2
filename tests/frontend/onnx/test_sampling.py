"""GridSample and AffineGrid against ONNX Runtime and PyTorch, at every operator set that they have had."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import helper

import legato
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.peer import Array, compare_node, legato_outputs, model, ort_outputs, reference_outputs, value

RNG = np.random.default_rng(7)
PADDINGS = ("zeros", "border", "reflection")
OLD = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}


def places(*shape: int) -> Array:
    """Places inside, outside, and on the elements and edges of small images."""
    found = (RNG.random(shape) * 4 - 2).astype(np.float32)
    found.reshape(-1)[:8] = [-1, 1, 0, 0.5, -0.5, 7.3, -1.25, 1.5]
    return found


@pytest.mark.parametrize(("mode", "padding"), [*product(OLD, PADDINGS)])
def test_grid_sample(mode: str, padding: str) -> None:
    x, grid = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32), places(2, 3, 3, 2)
    for opset, align in ((16, 0), (20, 1), (22, 0)):
        name = OLD[mode] if opset < 20 else mode
        more = {"mode": name, "padding_mode": padding, "align_corners": align}
        compare_node("GridSample", opset, (x, grid), more, tolerance=1e-4)


@pytest.mark.parametrize(("mode", "padding"), [*product(("linear", "nearest"), PADDINGS)])
def test_volumes(mode: str, padding: str) -> None:
    x, grid = RNG.standard_normal((1, 2, 3, 4, 2)).astype(np.float32), places(1, 2, 3, 2, 3)
    for align in (0, 1):
        more = {"mode": mode, "padding_mode": padding, "align_corners": align}
        compare_node("GridSample", 20, (x, grid), more, tolerance=1e-4)


@pytest.mark.parametrize("padding", PADDINGS)
def test_lines_and_cubic_volumes(padding: str) -> None:
    """Which ONNX Runtime does not have: as images of one row or volumes of one slice give them."""
    image = RNG.standard_normal((2, 2, 3, 5)).astype(np.float32)
    line, volume = places(2, 4, 1), places(2, 1, 3, 2, 3)
    row = np.concatenate([line, np.zeros_like(line)], axis=2)[:, None]
    volume[..., 2] = 0
    for mode in OLD:
        wanted = sampled(ort_outputs, image[:, :, :1], row, mode, padding)[:, :, 0]
        np.testing.assert_allclose(sampled(legato_outputs, image[:, :, 0], line, mode, padding), wanted, 1e-4, 1e-4)
        wanted = sampled(ort_outputs, image, volume[:, 0, ..., :2], mode, padding)[:, :, None]
        np.testing.assert_allclose(
            sampled(legato_outputs, image[:, :, None], volume, mode, padding), wanted, 1e-4, 1e-4
        )


@pytest.mark.parametrize("padding", ["zeros", "reflection"])
def test_cubic_volumes(padding: str) -> None:
    x, grid = RNG.standard_normal((1, 1, 3, 4, 2)).astype(np.float32), places(1, 2, 1, 2, 3)
    wanted = sampled(reference_outputs, x, grid, "cubic", padding)
    np.testing.assert_allclose(sampled(legato_outputs, x, grid, "cubic", padding), wanted, rtol=1e-4, atol=1e-4)


def sampled(outputs: Callable[..., Any], x: Array, grid: Array, mode: str, padding: str) -> Array:
    """What someone makes of a GridSample."""
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding)
    found: Array = outputs(model([node], [value("x", x.shape), value("g", grid.shape)], opset=20), {"x": x, "g": grid})[
        0
    ]
    return found


def test_places_that_are_nowhere() -> None:
    """NaN and infinite places, in images of one element as well, read nothing outside; compiled as interpreted."""
    grid = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0], np.float32).reshape(1, 3, 1, 2)
    for mode, padding, align, side in product(OLD, PADDINGS, (0, 1), (1, 2)):
        x = np.ones((1, 1, side, side), np.float32)
        node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding, align_corners=align)
        proto = model([node], [value("x", x.shape), value("g", grid.shape)], opset=20)
        (found,) = legato_outputs(proto, {"x": x, "g": grid})
        if mode == "nearest":
            assert np.isfinite(found).all()
        if (mode, align, side) == ("linear", 1, 1):
            np.testing.assert_array_equal(legato.compile(from_onnx(proto))(x, grid), found)


def test_float16_is_rounded_once() -> None:
    x, grid = RNG.standard_normal((1, 1, 4, 5)).astype(np.float16), places(1, 3, 3, 2)
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode="cubic")
    protos = [model([node], [value("x", x.shape, dtype), value("g", grid.shape)], opset=20)
              for dtype in ("float16", "float32")]  # fmt: skip
    (found,) = legato_outputs(protos[0], {"x": x, "g": grid})
    (wanted,) = legato_outputs(protos[1], {"x": x.astype(np.float32), "g": grid})
    np.testing.assert_array_equal(found, wanted.astype(np.float16))


@pytest.mark.parametrize("align", [0, 1])
def test_affine_grid(torch: Any, align: int) -> None:
    for size in ((2, 3, 4, 5), (2, 1, 2, 3, 4), (2, 1, 3, 1)):
        rank = len(size) - 2
        theta = RNG.standard_normal((2, rank, rank + 1)).astype(np.float32)
        node = helper.make_node("AffineGrid", ["t", "s"], ["y"], align_corners=align)
        proto = model([node], [value("t", ("n", rank, rank + 1)), value("s", (rank + 2,), "int64")], opset=20)
        (found,) = legato_outputs(proto, {"t": theta, "s": np.array(size)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what PyTorch made of dims of 1 long ago
            wanted = torch.nn.functional.affine_grid(torch.tensor(theta), size, align_corners=bool(align))
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_what_is_refused() -> None:
    def imported(x: tuple[int, ...], grid: tuple[int, ...], dtype: str = "float32", **more: str) -> None:
        node = helper.make_node("GridSample", ["x", "g"], ["y"], **more)
        legato_outputs(model([node], [value("x", x, dtype), value("g", grid)], opset=20), {})

    for wrong in ({"mode": "area"}, {"padding_mode": "wrap"}):
        with pytest.raises(ImportModelError, match="wanted one of"):
            imported((1, 1, 2, 2), (1, 3, 3, 2), **wrong)
    with pytest.raises(ImportModelError, match="in an image"):
        imported((1, 1, 2, 2), (1, 3, 2))
    with pytest.raises(UnsupportedError, match="interpolation of int32"):
        imported((1, 1, 2, 2), (1, 3, 3, 2), "int32")
