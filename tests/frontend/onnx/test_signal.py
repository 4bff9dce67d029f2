"""Transforms of signals, against NumPy's; windows and mel weights, against the reference of the onnx package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from legato.base.errors import ImportModelError, RunError, TypeCheckError
from tests.frontend.onnx.peer import Array, compare_node, legato_outputs, model, reference_outputs, value

RNG = np.random.default_rng(4)


def node(operator: str, opset: int, inputs: list[Array | None], shapes: Any = None, **attributes: Any) -> Array:
    """What one node gives for these inputs."""
    feeds = {f"x{n}": array for n, array in enumerate(inputs) if array is not None}
    names = ["" if array is None else f"x{n}" for n, array in enumerate(inputs)]
    made = helper.make_node(operator, names, ["y"], **attributes)
    proto = model([made], [value(name, a.shape, str(a.dtype)) for name, a in feeds.items()], opset=opset)
    return legato_outputs(proto, feeds, shapes=shapes)[0]


def complex_of(x: Array) -> Array:
    """Numbers whose parts are the last dim."""
    return np.asarray(x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0))


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("length", [None, 5, 9])
@pytest.mark.parametrize("symbolic", [False, True])
def test_transforms_of_any_length(parts: int, inverse: int, length: int | None, symbolic: bool) -> None:
    x = RNG.standard_normal((2, 7, 3, parts))
    shapes = {"x0": (None, None, None, None)} if symbolic else None
    given = None if length is None else np.array(length)
    got = node("DFT", 20, [x, given, np.array(1)], shapes, inverse=inverse)
    want = (np.fft.ifft if inverse else np.fft.fft)(complex_of(x), length, axis=1)
    np.testing.assert_allclose(complex_of(got), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 8, 9])
def test_one_side_and_back(n: int) -> None:
    x = RNG.standard_normal((2, n, 1)).astype(np.float32)
    half = node("DFT", 20, [x, None, np.array(1)], onesided=1)
    np.testing.assert_allclose(complex_of(half), np.fft.rfft(x[..., 0], axis=1), rtol=0, atol=1e-5)
    back = node("DFT", 20, [half, np.array(n), np.array(-2)], onesided=1, inverse=1)
    np.testing.assert_allclose(back, x, rtol=0, atol=1e-5)


def test_frames_of_complex_numbers() -> None:
    x, window = RNG.standard_normal((1, 23, 2)), RNG.standard_normal(6)
    got = complex_of(node("STFT", 17, [x, np.array(4), window], onesided=0))
    frames = np.stack([complex_of(x)[:, k : k + 6] * window for k in range(0, 18, 4)], 1)
    np.testing.assert_allclose(got, np.fft.fft(frames), rtol=0, atol=1e-12)


@pytest.mark.parametrize("operator", ["HannWindow", "HammingWindow", "BlackmanWindow"])
@pytest.mark.parametrize("periodic", [0, 1])
def test_windows(operator: str, periodic: int) -> None:
    compare_node(operator, 17, [np.array(11, np.int64)], {"periodic": periodic}, tolerance=1e-6)


def test_mel_weights() -> None:
    inputs = [np.array(n, np.int32) for n in (8, 64, 16000)] + [np.array(f, np.float32) for f in (20.0, 7600.0)]
    names = [f"x{n}" for n in range(5)]
    proto = model([helper.make_node("MelWeightMatrix", names, ["y"])],
                  [value(name, a.shape, str(a.dtype)) for name, a in zip(names, inputs, strict=True)])  # fmt: skip
    feeds = dict(zip(names, inputs, strict=True))
    wanted = reference_outputs(proto, feeds)
    assert wanted is not None
    np.testing.assert_allclose(legato_outputs(proto, feeds)[0], wanted[0], atol=1e-6)


def test_parts_of_numbers_have_no_frequencies() -> None:
    with pytest.raises(ImportModelError, match="parts of numbers"):
        node("DFT", 17, [np.zeros((1, 4, 1), np.float32)], axis=2)


@pytest.mark.parametrize("attributes", [{}, {"inverse": 1}, {"onesided": 1}, {"onesided": 1, "inverse": 1}], ids=str)
@pytest.mark.parametrize("when", ["known", "in a call"])
def test_a_transform_has_a_length(attributes: dict[str, int], when: str) -> None:
    """A length that is given is 1 or more, as ONNX Runtime has it: one side of none would have an element."""
    x, shapes = np.ones((1, 4, 1), np.float32), {"x0": (None, None, None)} if when == "in a call" else None
    made = helper.make_node("DFT", ["x0", "n", "a"], ["y"], **attributes)
    weights, feeds = {"a": np.array(1)}, {"x0": x}
    (weights if when == "known" else feeds)["n"] = np.array(0)
    proto = model([made], [value(name, a.shape, str(a.dtype)) for name, a in feeds.items()], ("y",), weights, 20)
    with pytest.raises((RunError, TypeCheckError), match="the length of the transform"):
        legato_outputs(proto, feeds, shapes=shapes)


@pytest.mark.parametrize("parts", [1, 2])
def test_nothing_becomes_nothing(parts: int) -> None:
    """Without a length, as ONNX Runtime has it; one side of nothing is refused."""
    x, names = np.zeros((1, 0, parts), np.float32), {"x0": (None, None, None)}
    for shapes in (None, names):
        assert node("DFT", 17, [x], shapes).shape == (1, 0, 2)
        with pytest.raises((RunError, TypeCheckError), match="the length of the transform"):
            node("DFT", 17, [x], shapes, onesided=1)
    assert node("DFT", 17, [x, np.array(3)]).tolist() == np.zeros((1, 3, 2)).tolist()
