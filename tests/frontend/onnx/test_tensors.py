"""Weights: every dtype in every encoding, sizes that do not fit, and external data that must not escape its folder."""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from legato.base.dtype import ALL_DTYPES, STORAGE_DTYPES, DType
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx import from_onnx
from legato.frontend.onnx.tensors import MAX_ELEMENTS, to_array
from legato.interp import evaluate
from tests.descriptors import is_open
from tests.frontend.onnx.peer import model, value
from tests.programs.settings import examples

DTYPES = [dtype.name for dtype in ALL_DTYPES]


def error(tensor: TensorProto) -> str:
    with pytest.raises(ImportModelError) as caught:
        to_array(tensor, None, "t")
    return caught.value.message


@given(st.sampled_from(DTYPES), st.integers(0, 5), st.integers(0, 3), st.booleans(), st.integers(0, 99))
@examples(200, fuzz=False)
def test_round_trip(dtype: str, rows: int, columns: int, raw: bool, seed: int) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    array = np.random.default_rng(seed).integers(0, 2 if dtype == "bool" else 100, (rows, columns)).astype(kind)
    tensor = numpy_helper.from_array(array, "t")
    if not raw:
        bits = array.view(np.uint16) if dtype in ("float16", "bfloat16") else array
        values = bits.ravel().tolist()
        tensor = helper.make_tensor("t", tensor.data_type, array.shape, array.ravel().tolist())
        assert not values or not tensor.HasField("raw_data")
    found = to_array(tensor, None, "t")
    assert found.dtype == kind
    np.testing.assert_array_equal(found, array)


def test_any_byte_is_a_bool() -> None:
    tensor = TensorProto(data_type=TensorProto.BOOL, dims=[3], raw_data=b"\x00\x01\x07")
    assert to_array(tensor, None, "t").tobytes() == b"\x00\x01\x01"


def test_sizes() -> None:
    short = TensorProto(data_type=TensorProto.FLOAT, dims=[3], raw_data=b"\x00" * 8)
    assert error(short) == "t: 8 bytes of data, but float32 of shape (3) needs 12"
    few = TensorProto(data_type=TensorProto.FLOAT, dims=[3], float_data=[1.0])
    assert error(few) == "t: 1 elements, but its shape has 3"
    huge = TensorProto(data_type=TensorProto.FLOAT, dims=[1 << 20, 1 << 20])
    assert error(huge) == ("t: shape (1048576, 1048576) has 1099511627776 elements; at most 68719476736 are accepted")
    empty = TensorProto(data_type=TensorProto.FLOAT, dims=[1 << 62, 1 << 40, 0])
    assert "elements but for its dimensions of 0; at most 68719476736 are accepted" in error(empty)
    negative = TensorProto(data_type=TensorProto.FLOAT, dims=[2, -1])
    assert error(negative) == "t: negative dimension in shape (2, -1)"
    overflow = TensorProto(data_type=TensorProto.INT8, dims=[1], int32_data=[300])
    assert error(overflow) == "t: values that do not fit its element type int8"
    assert error(TensorProto(data_type=99, dims=[1])) == "t: unknown element type 99"


def test_types_that_legato_lacks() -> None:
    with pytest.raises(UnsupportedError, match="t: element type COMPLEX64"):
        to_array(TensorProto(data_type=TensorProto.COMPLEX64, dims=[1]), None, "t")


@pytest.mark.parametrize("raw", [True, False], ids=["raw data", "int32 data"])
@pytest.mark.parametrize("dtype", STORAGE_DTYPES, ids=str)
def test_dtypes_that_only_store(dtype: DType, raw: bool) -> None:
    """Of less than 8 bits several lie in a byte; the rest of the last byte means nothing."""
    rng = np.random.default_rng(3)
    for shape in [(), (0,), (1,), (3,), (4,), (5, 7), (2, 3, 3)]:
        codes = np.asarray(rng.integers(0, 1 << dtype.width, shape, np.uint8)).view(dtype.numpy)
        tensor = numpy_helper.from_array(codes, "t")
        if not raw:
            packed = np.frombuffer(tensor.raw_data, np.uint8) if dtype.width in (2, 4) else codes.view(np.uint8).ravel()
            tensor = TensorProto(data_type=tensor.data_type, dims=shape, int32_data=packed.tolist())
        found = to_array(tensor, None, "t")
        assert (found.dtype, found.shape) == (codes.dtype, codes.shape)
        assert found.tobytes() == codes.tobytes() == numpy_helper.to_array(tensor).tobytes()


def test_sizes_of_packed_elements() -> None:
    def short(kind: int, size: int, data: bytes) -> str:
        return error(TensorProto(data_type=kind, dims=[size], raw_data=data))

    assert short(TensorProto.INT4, 5, b"123456") == "t: 6 bytes of data, but int4 of shape (5) needs 3"
    assert short(TensorProto.UINT2, 5, b"1") == "t: 1 bytes of data, but uint2 of shape (5) needs 2"
    assert short(TensorProto.FLOAT4E2M1, 1 << 40, b"").startswith("t: shape (1099511627776) has")
    few = TensorProto(data_type=TensorProto.UINT4, dims=[5], int32_data=[1, 2])
    assert error(few) == "t: 2 bytes of data, but 5 elements of uint4 need 3"
    wide = TensorProto(data_type=TensorProto.UINT4, dims=[2], int32_data=[256])
    assert error(wide) == "t: values that do not fit its element type uint8"
    for kind in (TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E8M0):
        assert "values that do not fit" in error(TensorProto(data_type=kind, dims=[1], int32_data=[256]))


# ------------------------------------------------------------------ external data


def external(location: str, **entries: str) -> onnx.ModelProto:
    """y = x + w with w (four float32) in another file."""
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", (4,))])
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=text)
    proto.graph.initializer.append(tensor)
    return proto


def save(folder: Path, proto: onnx.ModelProto) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


WEIGHTS = np.arange(6, dtype=np.float32)


@pytest.mark.parametrize("location", ["w.bin", "sub/w.bin", "./sub//w.bin"])
def test_external_data(location: str, tmp_path: Path) -> None:
    target = tmp_path / "m" / location
    target.parent.mkdir(parents=True)
    target.write_bytes(b"!" + WEIGHTS.tobytes())  # not aligned
    path = save(tmp_path / "m", external(location, offset="5", length="16"))
    result = evaluate(from_onnx(path), [np.zeros(4, np.float32)])
    np.testing.assert_array_equal(result, WEIGHTS[1:5])


def refused(path: Path | bytes) -> str:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(path)
    return caught.value.message


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("w.bin", "external data file 'w.bin' is missing"),
        ("no/w.bin", "external data file 'no/w.bin' is missing"),
        ("/etc/hostname", "external data file '/etc/hostname' has an absolute path"),
        ("../secret", "external data file '../secret' lies outside the model's folder"),
        ("sub/../../secret", "external data file 'sub/../../secret' lies outside the model's folder"),
        ("", "external data without the name of a file"),
        ("a\0b", "external data without the name of a file"),
        ("link", "external data file 'link' is reached through a symbolic link"),
        ("linked/secret", "external data file 'linked/secret' is reached through a symbolic link"),
        ("hard", "external data file 'hard' has other names (hard links)"),
        ("sub", "external data file 'sub' is not a regular file"),
        ("pipe", "external data file 'pipe' is not a regular file"),
        (".", "external data file '.' lies outside the model's folder"),
    ],
)
def test_escapes(location: str, why: str, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    for secret in (tmp_path / "secret", tmp_path / "out" / "secret"):
        secret.write_bytes(WEIGHTS.tobytes())
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "linked").symlink_to(tmp_path / "out")
    os.link(tmp_path / "secret", folder / "hard")
    os.mkfifo(folder / "pipe")
    assert refused(save(folder, external(location))) == f"initializer 'w': {why}"


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ({"offset": "12"}, "bytes 12 to 28 of external data file 'w.bin', which has 24"),
        ({"length": "8"}, "external data of 8 bytes, but its type and shape need 16"),
        ({"offset": "-4"}, "external data with offset '-4', wanted a number of bytes"),
        ({"offset": "1e3"}, "external data with offset '1e3', wanted a number of bytes"),
        ({"length": "9" * 30}, f"external data with length '{'9' * 30}', wanted a number of bytes"),
    ],
)
def test_ranges(entries: dict[str, str], why: str, tmp_path: Path) -> None:
    path = save(tmp_path, external("w.bin", **entries))
    (tmp_path / "w.bin").write_bytes(WEIGHTS.tobytes())
    assert refused(path) == f"initializer 'w': {why}"


@pytest.mark.parametrize("change", ["cut", "overwritten", "removed"])
def test_what_becomes_of_a_data_file_later_does_no_harm(change: str, tmp_path: Path) -> None:
    data = tmp_path / "w.bin"
    data.write_bytes(WEIGHTS.tobytes())
    module = from_onnx(save(tmp_path, external("w.bin", offset="8", length="16")))
    assert not is_open(data)
    if change == "cut":
        os.truncate(data, 0)
    elif change == "overwritten":
        data.write_bytes(bytes(24))
    else:
        data.unlink()
    np.testing.assert_array_equal(evaluate(module, [np.zeros(4, np.float32)]), WEIGHTS[2:])


def hub(folder: Path) -> Path:
    """The layout of a model hub's cache: the path of the model, which is a link, as its data file is."""
    (folder / "blobs").mkdir(parents=True)
    (folder / "snapshots" / "1").mkdir(parents=True)
    (folder / "blobs" / "a").write_bytes(external("w.bin", length="16").SerializeToString())
    (folder / "blobs" / "b").write_bytes(WEIGHTS.tobytes())
    for name, blob in (("model.onnx", "a"), ("w.bin", "b")):
        (folder / "snapshots" / "1" / name).symlink_to(f"../../blobs/{blob}")
    return folder / "snapshots" / "1" / "model.onnx"


def test_the_links_of_a_hub_cache_are_followed(tmp_path: Path) -> None:
    result = evaluate(from_onnx(hub(tmp_path)), [np.zeros(4, np.float32)])
    np.testing.assert_array_equal(result, WEIGHTS[:4])


@pytest.mark.parametrize("target", ["../../secret", "../../blobs/../secret", "../../blobs/link", "../../blobs/none"])
def test_links_of_a_hub_cache_lead_nowhere_else(tmp_path: Path, target: str) -> None:
    path = hub(tmp_path)
    (tmp_path / "secret").write_bytes(WEIGHTS.tobytes())
    (tmp_path / "blobs" / "link").symlink_to("../secret")
    (path.parent / "w.bin").unlink()
    (path.parent / "w.bin").symlink_to(target)
    why = "external data file 'w.bin' is reached through a symbolic link"
    assert refused(path) == f"initializer 'w': {why}"
    (path.parent / "w.bin").unlink()
    (path.parent / "w.bin").symlink_to("../../blobs/b")
    assert refused(save(path.parent / "m", external("../w.bin"))).endswith("lies outside the model's folder")
    copy = path.parent / "copy.onnx"  # no link: it has no store
    copy.write_bytes(path.read_bytes())
    assert refused(copy) == f"initializer 'w': {why}"


MOST = f"at most {MAX_ELEMENTS} are accepted"


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ((1,) * 65, "65 dimensions; at most 64 are accepted"),
        ((2**62, 2**40, 0), f"shape ({2**62}, {2**40}, 0) has {2**102} elements but for its dimensions of 0; {MOST}"),
        ((2**62, 2**40), f"shape ({2**62}, {2**40}) has {2**102} elements; {MOST}"),
        ((-1,), "negative dimension in shape (-1)"),
    ],
)
def test_shapes_that_no_array_has(shape: tuple[int, ...], why: str) -> None:
    proto = model([helper.make_node("Relu", ["w"], ["y"])], [])
    proto.graph.initializer.append(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=shape, raw_data=b""))
    assert refused(proto.SerializeToString()) == f"initializer 'w': {why}"


def test_external_data_needs_a_folder() -> None:
    assert refused(external("w.bin").SerializeToString()) == (
        "initializer 'w': external data file 'w.bin', but the model has no folder"
    )
