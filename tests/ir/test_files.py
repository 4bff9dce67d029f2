"""Modules in files."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from legato.base.errors import ParseError
from legato.ir.equal import alpha_equal
from legato.ir.expr import Tuple, constant
from legato.ir.files import load_json_file, load_text, save_json_file, save_text, side_file
from legato.ir.module import Module

DTYPES = ["float32", "float16", "float64", ml_dtypes.bfloat16, "bool",
          "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]  # fmt: skip


def _module(size: int) -> Module:
    bits = np.random.default_rng(0).integers(0, 2, (size, 8)).astype("uint8")
    return Module.from_expr(Tuple(tuple(constant(bits.astype(d)) for d in DTYPES)))


def test_constants_of_every_dtype(tmp_path: Path) -> None:
    module = _module(129)
    save_text(module, tmp_path / "m.relay")
    assert alpha_equal(load_text(tmp_path / "m.relay", ops=[]), module)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.relay", "m.relay.safetensors"]


def test_modules_as_json(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    save_json_file(_module(129), path)
    assert alpha_equal(load_json_file(path, ops=[]), _module(129))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.json", "m.json.safetensors"]
    side_file(path).unlink()
    with pytest.raises(ParseError) as caught:
        load_json_file(path, ops=[])
    assert caught.value.message == (
        f"{path}: arrays[0]: 'constant_0' lies in a side file: pass tensors=, or load the file that names it"
    )


def test_exact_bits(tmp_path: Path) -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 32, 1000, dtype="uint32")
    module = Module.from_expr(constant(bits.view("float32")))  # with NaNs of all kinds
    save_text(module, tmp_path / "m")
    assert alpha_equal(load_text(tmp_path / "m", ops=[]), module)


def test_a_side_file_that_is_not_needed_goes(tmp_path: Path) -> None:
    path = tmp_path / "m.relay"
    save_text(_module(129), path)
    save_text(_module(1), path)
    assert not side_file(path).exists()
    assert alpha_equal(load_text(path, ops=[]), _module(1))


def _error(path: Path) -> str:
    with pytest.raises(ParseError) as caught:
        load_text(path, ops=[])
    return caught.value.message


def test_damaged_files(tmp_path: Path) -> None:
    path = tmp_path / "m.relay"
    save_text(_module(129), path)
    side_file(path).write_bytes(b"\xff" * 100)
    assert _error(path).startswith(f"{side_file(path)} is not a safetensors file: ")
    side_file(path).unlink()
    assert _error(path) == (
        "meta[relay.Constant][0]: 'constant_0' lies in a side file: read the text with load_text, or pass constants="
    )
    path.write_bytes(b"\xff\xfe")
    assert _error(path) == f"{path} is not UTF-8 text: invalid start byte at byte 0"


def test_a_side_file_of_another_module(tmp_path: Path) -> None:
    path = tmp_path / "m.relay"
    save_text(_module(129), path)
    text = path.read_text()
    save_text(_module(130), path)
    path.write_text(text)
    assert _error(path) == ("meta[relay.Constant][0]: tensor 'constant_0' is float32[130, 8], expected float32[129, 8]")
