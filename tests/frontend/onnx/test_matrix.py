"""Determinants against ONNX Runtime and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import legato
from legato.base.errors import ImportModelError, LegatoError, UnsupportedError
from legato.frontend.onnx import from_onnx
from tests.frontend.onnx.peer import Array, legato_outputs, model, ort_outputs, value

RNG = np.random.default_rng(11)


def matrices(size: int) -> Array:
    """Regular ones, a singular one, one whose first pivot is 0, a permutation."""
    found = RNG.standard_normal((5, size, size))
    found[1, :, 0] = 0
    found[2, 0, 0] = 0
    found[3] = np.eye(size)[RNG.permutation(size)]
    return found.astype(np.float32)


@pytest.mark.parametrize("opset", [11, 22])
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_det(size: int, opset: int) -> None:
    x = matrices(size)
    proto = model([helper.make_node("Det", ["x"], ["y"])], [value("x", ("n", size, "m"))], opset=opset)
    (found,) = legato_outputs(proto, {"x": x})
    np.testing.assert_allclose(found, np.linalg.det(x.astype(np.float64)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found, ort_outputs(proto, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_det_compiled() -> None:
    for shape in ((4, 4), (2, 0, 0), (0, 3, 3), (2, 3, 3, 3)):
        x = RNG.standard_normal(shape).astype(np.float32)
        run = legato.compile(from_onnx(model([helper.make_node("Det", ["x"], ["y"])], [value("x", shape)])))
        np.testing.assert_allclose(run(x), np.linalg.det(x), rtol=1e-4, atol=1e-5)


def test_what_has_no_determinant() -> None:
    def asked(shape: tuple[int | str, ...], dtype: str = "float32") -> None:
        legato_outputs(model([helper.make_node("Det", ["x"], ["y"])], [value("x", shape, dtype)]), {})

    for shape, dtype in (((3,), "float32"), ((2, 2), "int32"), ((2, 3), "float32")):
        with pytest.raises(ImportModelError):
            asked(shape, dtype)
    with pytest.raises(UnsupportedError, match="the most"):
        asked((40, 40))
    with pytest.raises(LegatoError, match="symbolic"):
        asked(("n", "n"))
