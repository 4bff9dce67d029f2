"""Elements of at most 8 bits in ONNX models: Cast's tables, BitCast, and who only moves them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import legato
from legato.base import dtype as dt
from legato.base.dtype import STORAGE_DTYPES, DType
from legato.base.errors import ImportModelError
from legato.base.formats import FloatFormat
from legato.base.storage import largest
from legato.frontend.onnx import from_onnx
from legato.frontend.onnx.tensors import _DTYPES
from tests.frontend.onnx.peer import legato_outputs, model, reference_outputs

Array = np.ndarray[Any, Any]
CODES = {dtype: number for number, dtype in _DTYPES.items()}
EIGHT = [d for d in STORAGE_DTYPES if isinstance(d.format, FloatFormat) and d.format.infinity is not None]
POWERS = dt.dtype("float8_e8m0fnu")


def value(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, CODES[dt.dtype(array.dtype)], array.shape)


def ran(operator: str, feeds: Mapping[str, Array], *, opset: int = 26, **attributes: Any) -> Array:
    """The result, interpreted and compiled, with subnormal numbers: float8e8m0 has one of float32."""
    node = helper.make_node(operator, list(feeds), ["y"], **attributes)
    proto = model([node], [value(n, a) for n, a in feeds.items()], opset=opset)
    (found,) = legato_outputs(proto, feeds)
    again = legato.compile(from_onnx(proto), precision="exact")(*feeds.values())
    assert again.dtype == found.dtype
    if operator == "Cast" and dt.dtype(found.dtype).is_float:  # whose NaN has any sign
        np.testing.assert_array_equal(again.astype(np.float64), found.astype(np.float64))
    else:
        assert again.tobytes() == found.tobytes()
    return found


@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("kind", EIGHT, ids=str)
def test_the_tables_of_cast(kind: DType, source: str) -> None:
    """What is too large is the largest number, or, without `saturate`, infinity or NaN with its sign."""
    most = largest(kind)
    with np.errstate(over="ignore"):  # of float16
        x = np.array([0.0, -0.0, np.inf, -np.inf, most * 1.25, -most * 1.25, most, 1.0]).astype(dt.dtype(source).numpy)
    nan = np.array([np.nan]).astype(x.dtype)
    found = ran("Cast", {"x": x}, to=CODES[kind]).astype(np.float32)
    np.testing.assert_array_equal(found, [0, 0, most, -most, most, -most, most, 1])
    beyond = ran("Cast", {"x": x}, to=CODES[kind], saturate=0).astype(np.float32)
    infinite = np.inf if kind.name == "float8_e5m2" else np.nan
    np.testing.assert_array_equal(beyond[2:6], [infinite, -infinite] * 2)
    for saturate in (0, 1):
        assert np.isnan(ran("Cast", {"x": nan}, to=CODES[kind], saturate=saturate).astype(np.float32)).all()


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
def test_powers_of_two(mode: str) -> None:
    """By the standard's reference where the table says nothing else."""
    rng = np.random.default_rng(2)
    x = (2.0 ** rng.uniform(-126, 127, 512)).astype(np.float32)
    x = np.concatenate([x, [1.0, 1.5, 3.0, 1.25, 1.75, 2.0**-126, 2.0**127]]).astype(np.float32)
    for saturate in (0, 1):
        found = ran("Cast", {"x": x}, to=CODES[POWERS], round_mode=mode, saturate=saturate)
        wanted = numpy_helper.to_float8e8m0(x, bool(saturate), mode)
        np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))


def test_powers_of_two_out_of_range() -> None:
    x = np.array([0.0, 1e-40, 2.0**-127, 1.5 * 2.0**127, 3.4e38, np.inf, np.nan], np.float32)
    up = ran("Cast", {"x": x}, to=CODES[POWERS])
    assert up.view(np.uint8).tolist() == [0, 0, 0, 254, 254, 254, 255]
    nearest = ran("Cast", {"x": x}, to=CODES[POWERS], saturate=0, round_mode="nearest")
    assert nearest.view(np.uint8).tolist() == [255, 255, 0, 255, 255, 255, 255]
    with pytest.raises(ImportModelError, match="round_mode is 'odd', wanted up, down, nearest"):
        ran("Cast", {"x": x}, to=CODES[POWERS], round_mode="odd")


@pytest.mark.parametrize("kind", STORAGE_DTYPES, ids=str)
@pytest.mark.shared(3)
def test_casts_between_all(kind: DType) -> None:
    """As the standard's reference converts, in both directions."""
    codes = np.arange(1 << kind.width, dtype=np.uint8).view(kind.numpy)
    for other in (*dt.ALL_DTYPES, *STORAGE_DTYPES):
        if other in (kind, POWERS) or (kind == POWERS and other.is_int):
            continue  # what is out of range of integers, and below 0 of powers, the standard does not say
        found = ran("Cast", {"x": codes}, to=CODES[other])
        if other.is_storage or other.is_int:
            continue
        proto = model([helper.make_node("Cast", ["x"], ["y"], to=CODES[other])], [value("x", codes)], opset=26)
        wanted = reference_outputs(proto, {"x": codes})
        if wanted is None:
            continue
        np.testing.assert_array_equal(found.astype(np.float64), wanted[0].astype(np.float64))


@pytest.mark.parametrize("kind", STORAGE_DTYPES, ids=str)
def test_moved(kind: DType) -> None:
    """op(codes) = codes of op(bytes)."""
    rng = np.random.default_rng(4)
    codes, fill = (rng.integers(0, 1 << kind.width, s, np.uint8).view(kind.numpy) for s in ((2, 3, 4), ()))
    for operator, more, attributes in [
        ("Identity", {}, {}), ("Transpose", {}, {"perm": [2, 0, 1]}), ("Flatten", {}, {"axis": 2}),
        ("Reshape", {"s": np.array([4, -1])}, {}), ("Unsqueeze", {"s": np.array([1])}, {}), ("Shape", {}, {}),
        ("Pad", {"s": np.array([1, 0, 2, 0, 1, 0]), "v": fill}, {}), ("Concat", {"z": codes}, {"axis": 1}),
        ("Slice", {"a": np.array([1]), "e": np.array([4]), "x_": np.array([2])}, {}), ("Size", {}, {}),
        ("Gather", {"i": np.array([[1, 0], [2, 2]])}, {"axis": 1}), ("Expand", {"s": np.array([2, 2, 3, 4])}, {}),
        ("Tile", {"s": np.array([1, 2, 1])}, {}),
    ]:  # fmt: skip
        feeds = {"x": codes, **more}
        node = helper.make_node(operator, list(feeds), ["y"], **attributes)
        found = []
        for given in (feeds, {n: a.view(np.uint8) if a.dtype == kind.numpy else a for n, a in feeds.items()}):
            sizes = {n: a for n, a in given.items() if a.dtype == np.int64}
            rest = {n: a for n, a in given.items() if n not in sizes}
            proto = model([node], [value(n, a) for n, a in rest.items()], opset=25, weights=sizes)
            found.append(legato_outputs(proto, rest)[0])
        assert found[0].tobytes() == found[1].tobytes(), operator
        assert found[0].dtype == (kind.numpy if operator not in ("Shape", "Size") else np.int64)


def test_constants() -> None:
    fill = helper.make_tensor("v", TensorProto.INT4, [1], [-3])
    node = helper.make_node("ConstantOfShape", ["s"], ["y"], value=fill)
    proto = model([node], [], opset=25, weights={"s": np.array([2, 2])})
    (found,) = legato_outputs(proto, {})
    assert found.dtype == dt.dtype("int4").numpy
    assert found.astype(np.int32).tolist() == [[-3, -3], [-3, -3]]


def test_bits() -> None:
    x = np.arange(256, dtype=np.uint8)
    for kind in (d for d in STORAGE_DTYPES if d.width == 8):
        found = ran("BitCast", {"x": x}, to=CODES[kind])
        assert (found.dtype, found.tobytes()) == (kind.numpy, x.tobytes())
        assert ran("BitCast", {"x": found}, to=TensorProto.INT8).tobytes() == x.tobytes()
    nibbles = np.arange(16, dtype=np.uint8).view(dt.dtype("uint4").numpy)
    assert ran("BitCast", {"x": nibbles}, to=TensorProto.FLOAT4E2M1).tobytes() == nibbles.tobytes()
    half = np.array([0x7D01, 0x3C00, 0xFFFF], np.uint16)  # one of them is a signalling NaN
    assert ran("BitCast", {"x": half}, to=TensorProto.FLOAT16).tobytes() == half.tobytes()
    with pytest.raises(ImportModelError, match="bits of uint4, of 4 each, as uint8, of 8"):
        ran("BitCast", {"x": nibbles}, to=TensorProto.UINT8)


def test_arithmetic_is_refused() -> None:
    x = np.zeros(3, dt.dtype("float8_e4m3fn").numpy)
    with pytest.raises(Exception, match="add: computes with no float8_e4m3fn, which only stores: cast first"):
        ran("Add", {"x": x, "z": x})
