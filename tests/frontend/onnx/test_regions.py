"""Regions, deformable convolution, antialiasing and pictures, against ONNX Runtime and Pillow."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest
from onnx import helper
from PIL import Image

from legato.base.errors import RunError, UnsupportedError
from legato.ops.decode import _picture
from tests.frontend.onnx.peer import compare_node, legato_outputs, model, value

RNG = np.random.default_rng(6)
IMAGE = RNG.standard_normal((2, 2, 7, 9)).astype(np.float32)
ROIS = np.array([[0, 0, 8, 6], [2.5, 1.25, 7, 6.5], [-3, -2, 12, 3], [4, 4, 4.25, 5]], np.float32)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("samples", [0, 2])
def test_aligned_regions(mode: str, coordinates: str, samples: int) -> None:
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "sampling_ratio": samples,
                  "output_height": 3, "output_width": 2, "spatial_scale": 0.75}  # fmt: skip
    compare_node("RoiAlign", 16, [IMAGE, ROIS, np.array([0, 1, 0, 1])], attributes)


def test_pooled_regions() -> None:
    regions = np.concatenate([np.array([[0], [1], [1], [0]], np.float32), np.abs(ROIS)], 1)
    compare_node("MaxRoiPool", 16, [IMAGE, regions], {"pooled_shape": [3, 2], "spatial_scale": 0.5})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [(0.6, 0.4), (0.3, 1.0), (1.5, 0.5)])
@pytest.mark.parametrize("exclude", [0, 1])
def test_antialias(mode: str, scales: tuple[float, float], exclude: int) -> None:
    attributes = {"mode": mode, "antialias": 1, "exclude_outside": exclude}
    inputs = [IMAGE[:1], None, np.array([1, 1, *scales], np.float32)]
    compare_node("Resize", 19, inputs, attributes, tolerance=1e-5, lists=(2,))


def test_antialias_of_a_region_is_refused() -> None:
    resize = helper.make_node("Resize", ["x", "roi", "", "sizes"], ["y"], mode="linear", antialias=1,
                              coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    weights: Any = {"roi": np.array([0, 0, 0.1, 0.1, 1, 1, 0.9, 0.9], np.float32), "sizes": np.array([1, 2, 3, 3])}
    proto = model([resize], [value("x", (1, 2, 7, 9))], weights=weights, opset=19)
    with pytest.raises(UnsupportedError, match="antialias of a region"):
        legato_outputs(proto, {"x": IMAGE[:1]})


def file_of(picture: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """A picture as a file."""
    held = io.BytesIO()
    Image.fromarray(picture).save(held, kind)
    return np.frombuffer(held.getvalue(), np.uint8)


def test_pictures() -> None:
    picture = RNG.integers(0, 256, (5, 4, 3)).astype(np.uint8)
    proto = model([helper.make_node("ImageDecoder", ["x"], ["y"], pixel_format="BGR")],
                  [value("x", ("n",), "uint8")], opset=20)  # fmt: skip
    (got,) = legato_outputs(proto, {"x": file_of(picture, "PNG")})
    np.testing.assert_array_equal(got, picture[:, :, ::-1])
    with pytest.raises(RunError, match="no picture"):
        legato_outputs(proto, {"x": np.arange(40, dtype=np.uint8)})
    with pytest.raises(RunError, match="no picture"):  # of a format that is not read
        legato_outputs(proto, {"x": file_of(picture, "GIF")})


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_pictures_of_too_many_elements_are_refused_in_any_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a filter of warnings, which all threads share."""
    data, filters = file_of(np.zeros((5, 4, 3), np.uint8), "PNG"), list(warnings.filters)
    with _picture(data) as found:
        assert found.size == (4, 5)
        assert list(warnings.filters) == filters
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 19)
    with pytest.raises(RunError, match="4 x 5 pixels"), _picture(data):
        pass


@pytest.mark.parametrize("mask", [False, True])
def test_deformable_convolution(mask: bool) -> None:
    weight = RNG.standard_normal((4, 1, 2, 3)).astype(np.float32)
    offset = RNG.uniform(-2, 2, (2, 24, 4, 4)).astype(np.float32)
    bias = RNG.standard_normal(4).astype(np.float32)
    share = RNG.uniform(0, 1, (2, 12, 4, 4)).astype(np.float32) if mask else None
    attributes = {"group": 2, "offset_group": 2, "strides": [2, 2], "pads": [1, 0, 0, 1], "kernel_shape": [2, 3]}
    compare_node("DeformConv", 19, [IMAGE, weight, offset, bias, share], attributes, tolerance=1e-4)
