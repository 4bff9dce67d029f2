"""Files that are not ONNX, damaged ones, and versions that are not read: one error each, with its text."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from legato.base.errors import ImportModelError, LegatoError, UnsupportedError
from legato.frontend.onnx import check, from_onnx
from legato.frontend.onnx.reader import MAX_OPSET, read
from tests.frontend.onnx.peer import model, value


def mlp() -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((3, 4), np.float32), "c": rng.standard_normal(4).astype(np.float32)}
    nodes = [
        helper.make_node("Gemm", ["x", "w", "c"], ["h"], name="dense"),
        helper.make_node("Relu", ["h"], ["y"], name="relu"),
    ]
    return model(nodes, [value("x", (2, 3))], weights=weights)


def message(source: object) -> str:
    with pytest.raises(ImportModelError) as caught:
        from_onnx(source)  # type: ignore[arg-type]  # wrong types are part of it
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"PK\x03\x04rest", "it is a zip archive (PyTorch, Keras and NumPy files are such)"),
        (b"\x89HDF\r\n", "it is an HDF5 file (older Keras models are such)"),
        (b"\x80\x02}q\x00.", "it is a Python pickle"),
        (b"\x1c\x00\x00\x00TFL3", "it is a TensorFlow Lite file"),
        (b"hello, world", "its first bytes are no ONNX model"),
        (b"\x7fELF\x02", "it is a native library or program"),
    ],
)
def test_foreign_files(content: bytes, why: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    assert message(path) == f"import error: {path}: not an ONNX file: {why}"
    assert message(content) == f"import error: the model: not an ONNX file: {why}"


def test_paths(tmp_path: Path) -> None:
    missing = tmp_path / "none.onnx"
    assert message(missing) == f"import error: {missing}: No such file or directory"
    assert message(tmp_path / "no" / "x.onnx") == f"import error: {tmp_path}/no/x.onnx: No such file or directory"
    assert message(tmp_path) == f"import error: {tmp_path}: not a regular file"
    os.mkfifo(tmp_path / "pipe")
    assert message(tmp_path / "pipe") == f"import error: {tmp_path}/pipe: not a regular file"
    assert message(7) == "import error: from_onnx: got int, wanted a path, bytes or an onnx.ModelProto"


def test_a_link_to_a_model_is_the_model(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(mlp().SerializeToString())
    (tmp_path / "model.onnx").symlink_to(tmp_path / "blob")
    assert read(tmp_path / "model.onnx").opsets == {"": 17}


def test_truncated() -> None:
    whole = mlp().SerializeToString()
    cut = message(whole[:100])
    assert cut == ("import error: the model: truncated or corrupt ONNX file\n"
                   "  hint: compare its size and checksum with the original's")  # fmt: skip
    for length in range(1, len(whole)):
        with pytest.raises(ImportModelError):
            from_onnx(whole[:length])


def test_corrupted_bytes_never_crash() -> None:
    whole, rng = mlp().SerializeToString(), random.Random(1)
    for _ in range(600):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            from_onnx(bytes(damaged))
            check(bytes(damaged))
        except LegatoError:
            pass


def test_versions() -> None:
    old, new = mlp(), mlp()
    old.opset_import[0].version, new.opset_import[0].version = 0, MAX_OPSET + 1
    with pytest.raises(UnsupportedError) as caught:
        from_onnx(old)
    assert str(caught.value) == (
        f"unsupported: the model: ONNX operator set 0, but 1 to {MAX_OPSET} are read\n  hint: they count from 1"
    )
    with pytest.raises(UnsupportedError, match=f"ONNX operator set {MAX_OPSET + 1}, but 1 to {MAX_OPSET} are read"):
        from_onnx(new)
    future = mlp()
    future.ir_version = 999
    with pytest.raises(UnsupportedError, match="ONNX IR version 999, but version"):
        from_onnx(future)
    none = mlp()
    del none.opset_import[:]
    assert "the model names no operator set" in message(none)
    assert "truncated" not in message(none)
