"""What SECURITY.md says: its limits are those of the source, and the known holes of other loaders are none here."""

from __future__ import annotations

import importlib
import os
import pickle
import re
import resource
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import legato
from legato.base.errors import ArtifactError, InternalError, LegatoError, RunError
from legato.cli._arguments import read_arrays
from legato.compare.dump import write_dump
from legato.frontend.onnx import check, from_onnx
from legato.ir.json_load import load_json
from legato.ops import table
from legato.relay import load_param_dict
from tests.frontend.onnx.peer import model, value

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
LITTLE = 32 << 20  # bytes, of what Python and NumPy ask for: far below what the files below say that they have
X = np.arange(4, dtype=np.float32)


@contextmanager
def little_memory(limit: int = LITTLE) -> Iterator[None]:
    """Whatever is asked for inside, used or not, is less than `limit` bytes at any time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(LegatoError) as caught, little_memory():
        call()
    assert not isinstance(caught.value, InternalError)
    return str(caught.value)


# ------------------------------------------------------------------ the page


def test_the_limits_are_those_of_the_source() -> None:
    rows = re.findall(r"^\| .* \| (\d+) \| `([\w.]+)\.(\w+)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\|.*`legato\.[\w.]+` \|$", PAGE, re.MULTILINE)) > 20
    for number, module, name in rows:
        assert getattr(importlib.import_module(module), name) == int(number), name


def test_the_page_is_linked() -> None:
    assert "](SECURITY.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z-]+)`", PAGE):
        assert f"\n{target}:" in makefile
    for name in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / name).exists()


def test_nothing_that_executes_or_connects_is_imported() -> None:
    """No unpickling, no network: no module of the package imports what could."""
    wanted = r"^\s*(?:import|from) (?:pickle|marshal|shelve|dill|cloudpickle|socket|ssl|http|urllib|requests|ftplib)\b"
    for path in (ROOT / "src").rglob("*.py"):
        assert not re.search(wanted, path.read_text(encoding="utf-8"), re.MULTILINE), path


# ------------------------------------------------------------------ external data


def external(folder: Path, location: str, **entries: str) -> Path:
    """y = x + w, where w is said to lie in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=text)
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", (4,))])
    proto.graph.initializer.append(tensor)
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.mark.parametrize("marker", ["*/_ORT_MEM_ADDR_/*", "_ORT_MEM_ADDR_", "tag:in-memory"])
def test_no_address_is_believed(marker: str, tmp_path: Path) -> None:
    """Markers by which a runtime lets its own tensors point into memory (onnxruntime#28709)."""
    path = external(tmp_path, marker, offset=str(id(X)), length="16")
    assert refusal(lambda: from_onnx(path)).endswith(f"external data file {marker!r} is missing")


def test_keys_of_external_data_are_no_attributes(tmp_path: Path) -> None:
    """CVE-2026-34445: what a model says becomes a field of an object of the loader."""
    (tmp_path / "w.bin").write_bytes(X.tobytes())
    (tmp_path.parent / "w.bin").write_bytes(bytes(16))
    odd = {"basepath": "..", "_descriptor": "0", "__class__": "x", "slice": "x", "size": "1" * 15}
    path = external(tmp_path, "w.bin", **odd)
    np.testing.assert_array_equal(legato.compile(path)(X), X + X)


def test_offsets_beyond_two_and_four_gigabytes(tmp_path: Path) -> None:
    """Of a sparse file: nothing but the bytes that are wanted is read."""
    file, place = tmp_path / "w.bin", 5 << 30
    with open(file, "wb") as out:
        out.seek(place)
        out.write(X.tobytes())
        out.seek((1 << 31) - 4)
        out.write(X[::-1].tobytes())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for offset, wanted in ((place, X), ((1 << 31) - 4, X[::-1]), (3 << 30, 0 * X)):
        executable = legato.compile(external(tmp_path, "w.bin", offset=str(offset), length="16"))
        np.testing.assert_array_equal(executable(X), X + wanted)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # kilobytes
    path = external(tmp_path, "w.bin", offset=str(place + 4), length="16")
    with pytest.raises(LegatoError, match=f"bytes {place + 4} to {place + 20} of external data file 'w.bin'"):
        from_onnx(path)


def test_a_folder_that_becomes_a_link_leads_nowhere(tmp_path: Path) -> None:
    """CVE-2026-27489: a folder on the way is a link."""
    (tmp_path / "m").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "w.bin").write_bytes(X.tobytes())
    path = external(tmp_path / "m", "sub/w.bin")
    os.symlink(tmp_path / "other", tmp_path / "m" / "sub")
    assert "is reached through a symbolic link" in refusal(lambda: from_onnx(path))


# ------------------------------------------------------------------ names


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "..", "a\0b", "x" * 5000, "-rf", "ü/\n"])
def test_no_name_of_a_model_is_a_path(name: str, tmp_path: Path) -> None:
    """CVE-2024-5187, CVE-2025-51480: files are written where a model says."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    write_dump(tmp_path / "a" / "b", {name: X}, (), {}, {name: X})
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(found) == 3
    assert {path.parent for path in found} == {tmp_path / "a" / "b"}


# ------------------------------------------------------------------ allocations


def stored(dims: Sequence[int], kind: int = TensorProto.FLOAT, **fields: Any) -> bytes:
    proto = model([helper.make_node("Identity", ["w"], ["y"])], [])
    proto.graph.initializer.append(TensorProto(name="w", data_type=kind, dims=dims, **fields))
    return proto.SerializeToString()


@pytest.mark.parametrize(
    "content",
    [
        stored([1 << 35]),
        stored([1 << 35], raw_data=b"four"),
        stored([1 << 31, 1 << 31]),
        stored([1 << 62, 4], raw_data=b""),
        stored([0, 1 << 62], raw_data=b""),
        stored([-1], raw_data=b""),
        stored([1] * 1000, raw_data=bytes(4)),
        stored([1 << 35], TensorProto.STRING, string_data=[b"a"]),
        stored([1 << 35], TensorProto.INT4, raw_data=b"a"),
        stored([1 << 35], TensorProto.COMPLEX128, raw_data=b"a"),
    ],
    ids=range(10),
)
def test_what_a_tensor_says_it_has_is_not_asked_for(content: bytes) -> None:
    refusal(lambda: from_onnx(content))


SIZED = {"ConstantOfShape": "n", "RandomNormal": "", "Range": "z s o", "Tile": "x n", "Expand": "x n", "Pad": "x p",
         "OneHot": "v s v"}  # fmt: skip


@pytest.mark.parametrize(
    ("operator", "size"),
    [(operator, size) for operator in SIZED for size in (1 << 35, 1 << 40, 1 << 62)]
    + [(operator, -1) for operator in ("ConstantOfShape", "RandomNormal", "Tile", "OneHot")],
)
def test_what_operators_make_is_not_made_before_a_call(operator: str, size: int) -> None:
    """Nothing of such a size is folded; a call has its limit."""
    reads = SIZED[operator].split()
    weights = {"n": np.array([size]), "s": np.array(size), "z": np.array(0), "o": np.array(1), "p": np.array([0, size]),
               "v": np.array([0, 1])}  # fmt: skip
    more = {"shape": [size]} if operator == "RandomNormal" else {}
    node = helper.make_node(operator, reads, ["y"], **more)
    used = {name: array for name, array in weights.items() if name in reads}
    content = model([node], [value("x", (1,))], weights=used).SerializeToString()
    refusal(lambda: legato.compile(content, memory_limit=1 << 20).run({"x": X[:1]}))


# ------------------------------------------------------------------ converters


def test_a_converter_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong inside a converter of Legato's is an error of Legato's; in one of the user's, the user's own."""

    def own(b: Any, x: Any) -> Any:
        return {}[0]

    proto = model([helper.make_node("Relu", ["x"], ["y"], name="first")], [value("x", (4,))])
    with pytest.raises(KeyError):
        from_onnx(proto, custom={"Relu": own})
    monkeypatch.setattr("legato.frontend.onnx.importer.Importer._convert", own)
    with pytest.raises(InternalError, match="first: the conversion of Relu failed"):
        from_onnx(proto)


# ------------------------------------------------------------------ recursion


def functions(depth: int, times: int) -> bytes:
    """Local functions, each of which calls the next so many times."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    last = helper.make_function("own", "F0", ["a"], ["b0"], [helper.make_node("Relu", ["a"], ["b0"])], opsets)
    made = [last]
    for n in range(1, depth):
        nodes = [
            helper.make_node(f"F{n - 1}", [f"b{k - 1}" if k else "a"], [f"b{k}"], domain="own") for k in range(times)
        ]
        made.append(helper.make_function("own", f"F{n}", ["a"], [f"b{times - 1}"], nodes, opsets))
    call = helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="own")
    return model(
        [call], [value("x", (4,))], opset_imports=opsets, functions=made, ir_version=8
    ).SerializeToString()  # fmt: skip


def test_a_chain_of_local_functions() -> None:
    """175 kB end sessions of another runtime."""
    content = functions(3000, 1)
    assert not check(content).unsupported
    np.testing.assert_array_equal(legato.compile(content)(X - 1), np.maximum(X - 1, 0))


def test_functions_that_double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("legato.frontend.onnx.importer.MAX_NODES", 2000)
    assert "expand to over 2000 nodes" in refusal(lambda: from_onnx(functions(60, 2)))


@pytest.mark.parametrize(
    "text",
    ["[" * 250_000, '{"a":' * 250_000, '{"nodes": ' + "[" * 250_000 + "]" * 250_000 + ', "root": 1, "attrs": {}}'],
    ids=range(3),
)
def test_json_of_250_000_levels(text: str) -> None:
    """CVE-2025-0649, CVE-2026-0994."""
    assert "nested too deeply" in refusal(lambda: load_json(text, ops=table()))


@pytest.mark.parametrize("opened", ["(", "[", "{", "fn () { ", "let %x = ", "if (", "-", "Tensor[", "ref("])
def test_texts_of_20_000_levels(opened: str) -> None:
    refusal_of_text = pytest.raises(LegatoError)
    with refusal_of_text as caught:
        legato.parse('#[version = "0.0.5"]\ndef @main() { ' + opened * 20_000)
    assert not isinstance(caught.value, InternalError)


# ------------------------------------------------------------------ parameters and arrays

LIST, ARRAY = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F  # how TVM's parameters and arrays begin


def parameters(count: int, name: int, dims: Sequence[int], rank: int, size: int) -> bytes:
    """TVM's parameters, where numbers say what is not there."""
    array = struct.pack("<QQiiiBBH", ARRAY, 0, 1, 0, rank, 2, 32, 1) + struct.pack(f"<{len(dims)}q", *dims)
    head = struct.pack("<QQQQ", LIST, 0, count, name) + b"a" + struct.pack("<Q", count)
    return head + array + struct.pack("<q", size)


def safetensors(header: bytes, size: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if size is None else size) + header


WIDE = b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}'


@pytest.mark.parametrize(
    "content",
    [
        parameters(1 << 60, 1, [4], 1, 16),
        parameters(1, 1 << 60, [4], 1, 16),
        parameters(1, 1, [1 << 31, 1 << 31], 2, 1 << 62),
        parameters(1, 1, [4], 1 << 30, 16),
        parameters(1, 1, [4], -1, 16),
        parameters(1, 1, [-4], 1, -16),
        safetensors(WIDE),
        safetensors(WIDE, 1 << 60),
        safetensors(b"{" * 1000),
        b"",
    ],
    ids=range(10),
)
def test_parameters_are_held_against_their_bytes(content: bytes) -> None:
    with pytest.raises(ArtifactError), little_memory():
        load_param_dict(content)


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """CVE-2025-32434."""
    sprung, files = tmp_path / "sprung", [tmp_path / name for name in ("a.npy", "b.npz", "c.pkl", "d.onnx", "e.lgt")]
    trap = np.array([Trap(sprung)], object)
    np.save(files[0], trap, allow_pickle=True)
    np.savez(files[1], x=trap)
    for path in files[2:]:
        path.write_bytes(pickle.dumps(Trap(sprung)))
    for path in files:
        for load in (read_arrays, from_onnx, legato.load, lambda p: load_param_dict(p.read_bytes())):
            with pytest.raises(LegatoError):
                load(path)
    assert not sprung.exists()


def test_an_array_of_a_file_that_says_what_it_has_not(tmp_path: Path) -> None:
    head = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head
    (tmp_path / "a.npy").write_bytes(content)
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as file:
        file.writestr("x.npy", content)
    for name in ("a.npy", "b.npz"):
        with pytest.raises(RunError):
            read_arrays(tmp_path / name)
