"""Artifact files: round trip, and one typed error for every kind of damage."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import numpy as np
import pytest

import legato.base.target
from legato.base.errors import ArtifactError, LegatoError
from legato.base.target import cpu_flags
from legato.runtime import Executable, load, verify_file
from legato.runtime.artifact import PAGE
from legato.runtime.binding import LARGE, crc32c_chunks
from legato.runtime.program import ABI, FORMAT
from tests.damaged.trees import altered
from tests.descriptors import is_open
from tests.runtime import forging
from tests.runtime.forging import PREFIX
from tests.runtime.images import executable, functions, image, program, twice

ROOT = Path(__file__).parents[2]
X = np.arange(5, dtype=np.float32)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact whose constants are more than one megabyte, so that they have several checksums."""
    path = tmp_path_factory.mktemp("artifact") / "model.legato"
    made = image()
    constants = [("w", np.array([3], np.float32)), ("b", np.arange(400_000, dtype=np.float32))]
    exe = Executable.from_parts(program(), made.data, made.code_size, made.relocations, constants, host_ops=twice)
    exe.save(path)
    return path


def message_of(path: Path, call: Callable[[Path], object] = load) -> str:
    with pytest.raises(ArtifactError) as error:
        call(path)
    return str(error.value).replace(str(path), "FILE")


def changed(path: Path, folder: Path, change: Callable[[bytearray], object]) -> Path:
    data = bytearray(path.read_bytes())
    change(data)
    copy = folder / "changed.legato"
    copy.write_bytes(data)
    return copy


def forged(path: Path, folder: Path, change: Callable[[dict[str, Any]], object], *, sealed: bool = True) -> Path:
    """The artifact with another manifest, and with hashes that fit it: what a damaged file cannot be.

    sealed: its code says that it belongs to that manifest.
    """
    copy = folder / "forged.legato"
    copy.write_bytes(forging.forged(path.read_bytes(), lambda manifest, bodies: change(manifest), sealed=sealed))
    return copy


# ---------------------------------------------------------------------------------------------------- round trip


def test_round_trip(artifact: Path) -> None:
    exe = load(artifact, threads=2, host_ops=twice)
    np.testing.assert_array_equal(exe(X), X * 3)  # type: ignore[arg-type]
    assert exe.program == program()
    assert exe.weight_bytes == 64 + 1_600_000
    assert int(exe.entry("table")(np.array([1]))[0]) == 1111  # type: ignore[index]
    np.testing.assert_array_equal(exe.entry("by_host")(X), X * 2)  # type: ignore[arg-type]


def test_saving_what_was_loaded_gives_the_same_file(artifact: Path, tmp_path: Path) -> None:
    load(artifact).save(tmp_path / "copy.legato")
    assert (tmp_path / "copy.legato").read_bytes() == artifact.read_bytes()


def test_verify_gives_hashes(artifact: Path) -> None:
    hashes = verify_file(artifact)
    assert list(hashes) == ["source", "stages", "code", "relocations", "constants"]
    assert hashes["source"] == hashlib.sha256(program().source.encode()).hexdigest()


def test_constants_lie_on_a_page(artifact: Path) -> None:
    assert load(artifact)._parts.constants_address % PAGE == 0


@pytest.mark.parametrize("change", ["cut", "overwritten", "removed"])
def test_what_becomes_of_a_file_that_was_loaded_does_no_harm(artifact: Path, tmp_path: Path, change: str) -> None:
    path = changed(artifact, tmp_path, lambda data: None)
    exe = load(path, host_ops=twice)
    assert not is_open(path)
    if change == "cut":
        os.truncate(path, 100)
    elif change == "overwritten":
        with open(path, "r+b") as file:
            file.write(bytes(path.stat().st_size))
    else:
        path.unlink()
    np.testing.assert_array_equal(exe(X), X * 3)  # type: ignore[arg-type]
    exe.save(tmp_path / "copy.legato")
    assert (tmp_path / "copy.legato").read_bytes() == artifact.read_bytes()


@pytest.mark.parametrize("depth", [1, 2, 33, 100])
def test_results_nest_as_deeply_as_types(tmp_path: Path, depth: int) -> None:
    structure: Any = 0
    for _ in range(depth):
        structure = (structure,)
    of = program(functions={"main": replace(functions()["main"], structure=structure)})
    executable(of=of).save(tmp_path / "model.legato")
    result: Any = load(tmp_path / "model.legato")(X)
    for _ in range(depth):
        (result,) = result
    np.testing.assert_array_equal(result, X * 3)


def test_program_without_constants(tmp_path: Path) -> None:
    made = image()
    exe = Executable.from_parts(program(), made.data, made.code_size, made.relocations, [], function="check")
    exe.save(tmp_path / "model.legato")
    np.testing.assert_array_equal(load(tmp_path / "model.legato", function="check")(X), X)  # type: ignore[arg-type]


def test_a_file_that_is_replaced_stays_loaded(artifact: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.legato"
    load(artifact).save(path)
    old = load(path)
    executable(scale=7).save(path)
    np.testing.assert_array_equal(old(X), X * 3)  # type: ignore[arg-type]
    np.testing.assert_array_equal(load(path)(X), X * 7)  # type: ignore[arg-type]


WITHOUT_COMPILER = """
import sys
for name in ("llvmlite", "onnx", "torch", "ml_dtypes", "rich", "safetensors"):
    sys.modules[name] = None
import numpy as np
from legato.runtime import load
print(load(sys.argv[1])(np.arange(5, dtype=np.float32)).tolist())
allowed = ("base", "runtime", "_version")
print([name for name in sys.modules if name.startswith("legato.") and name.split(".")[1] not in allowed])
"""


def test_load_without_the_compiler(artifact: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_COMPILER, str(artifact)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT / "src")
    assert done.stdout == "[0.0, 3.0, 6.0, 9.0, 12.0]\n[]\n"


# ---------------------------------------------------------------------------------------------------- writing


def test_nothing_is_left_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.legato"
    path.write_bytes(b"what was there")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert message_of(path, executable().save) == "cannot write FILE: No space left on device"
    assert [file.name for file in tmp_path.iterdir()] == ["model.legato"]
    assert path.read_bytes() == b"what was there"


def test_nothing_is_left_when_writing_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        executable().save(tmp_path / "model.legato")
    assert list(tmp_path.iterdir()) == []


def test_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert message_of(tmp_path / "no" / "model.legato", executable().save) == (
        "cannot write FILE: No such file or directory"
    )
    assert message_of(tmp_path, executable().save) == "cannot write FILE: Is a directory"


# ---------------------------------------------------------------------------------------------------- damage


def places(path: Path) -> list[int]:
    """All bytes of the prefix, and bytes of every region: text, padding, each section, its first and last byte."""
    data = path.read_bytes()
    _, _, length, size, _ = PREFIX.unpack(data[: PREFIX.size])
    base = PREFIX.size + length
    manifest = json.loads(data[PREFIX.size : base])
    found = [*range(PREFIX.size), PREFIX.size, base - 1]
    for offset, count, _ in manifest["sections"].values():
        found += [base + offset, base + offset + count // 2, base + offset + count - 1, base + offset + count]
    rng = np.random.default_rng(0)
    found += rng.integers(0, size, 150).tolist() + rng.integers(PREFIX.size, base, 50).tolist()
    return sorted({place for place in found if place < size})


@pytest.mark.parametrize("call", [load, verify_file])
def test_every_flipped_byte_is_found(artifact: Path, tmp_path: Path, call: Callable[[Path], object]) -> None:
    copy = changed(artifact, tmp_path, lambda data: None)
    call(copy)
    rng = np.random.default_rng(1)
    with open(copy, "r+b") as file:
        for place in places(artifact):
            file.seek(place)
            good = file.read(1)
            for mask in (1, int(rng.integers(2, 256))):
                file.seek(place)
                file.write(bytes([good[0] ^ mask]))
                file.flush()
                with pytest.raises(ArtifactError):
                    call(copy)
            file.seek(place)
            file.write(good)
            file.flush()
    call(copy)


@pytest.mark.parametrize("call", [load, verify_file])
def test_every_truncation_is_found(artifact: Path, tmp_path: Path, call: Callable[[Path], object]) -> None:
    data = artifact.read_bytes()
    copy = tmp_path / "short.legato"
    for size in [*range(1, PREFIX.size + 2), *np.linspace(PREFIX.size, len(data) - 1, 20, dtype=int).tolist()]:
        copy.write_bytes(data[:size])
        with pytest.raises(ArtifactError):
            call(copy)


def test_message_of_truncation(artifact: Path, tmp_path: Path) -> None:
    size = artifact.stat().st_size
    copy = changed(artifact, tmp_path, lambda data: data.__delitem__(slice(-100, None)))
    assert message_of(copy) == f"FILE is truncated: {size - 100} of {size} bytes are left"


def test_message_of_longer_file(artifact: Path, tmp_path: Path) -> None:
    copy = changed(artifact, tmp_path, lambda data: data.append(0))
    assert message_of(copy) == (
        "FILE is damaged: its sizes do not fit\n  hint: copy it again, or compile the model again"
    )


def flip(place: int) -> Callable[[bytearray], object]:
    return lambda data: data.__setitem__(place, data[place] ^ 16)


@pytest.mark.parametrize(
    ("section", "what"),
    [
        ("source", "the SHA-256 of its source section differs"),
        ("stages", "the SHA-256 of its stages section differs"),
        ("code", "the SHA-256 of its code section differs"),
        ("relocations", "the SHA-256 of its relocations section differs"),
        ("constants", "the checksum of its constants differs in megabyte 1"),
    ],
)
def test_message_of_damage(artifact: Path, tmp_path: Path, section: str, what: str) -> None:
    data = artifact.read_bytes()
    length = PREFIX.unpack(data[: PREFIX.size])[2]
    offset, count, _ = json.loads(data[PREFIX.size : PREFIX.size + length])["sections"][section]
    copy = changed(artifact, tmp_path, flip(PREFIX.size + length + offset + count - 1))
    hint = "\n  hint: copy it again, or compile the model again"
    assert message_of(copy) == f"FILE is damaged: {what}{hint}"
    assert message_of(copy, verify_file) == f"FILE is damaged: the SHA-256 of its {section} section differs{hint}"


def test_message_of_damaged_manifest(artifact: Path, tmp_path: Path) -> None:
    assert message_of(changed(artifact, tmp_path, flip(PREFIX.size + 99))) == (
        "FILE is damaged: the SHA-256 of its manifest differs\n  hint: copy it again, or compile the model again"
    )


def test_another_format(artifact: Path, tmp_path: Path) -> None:
    newer = changed(artifact, tmp_path, lambda data: data.__setitem__(8, FORMAT + 1))
    assert message_of(newer) == (
        f"FILE has format {FORMAT + 1}, newer than the {FORMAT} of this Legato\n  hint: upgrade Legato"
    )
    older = changed(artifact, tmp_path, lambda data: data.__setitem__(8, 0))
    assert message_of(older) == (
        f"FILE has format 0, older than the {FORMAT} of this Legato\n  hint: compile the model again"
    )


@pytest.mark.parametrize("content", [b"\x08\x07\x12\x07pytorch" * 20, b"\x7fELF" * 50, b"\x89LEGATO\n", b"text\n"])
def test_foreign_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.legato"
    path.write_bytes(content)
    assert message_of(path) == "FILE is not a Legato artifact"


def test_what_is_no_file(tmp_path: Path) -> None:
    assert message_of(tmp_path / "none") == "cannot read FILE: No such file or directory"
    assert message_of(tmp_path) == "cannot read FILE: Is a directory"
    os.mkfifo(tmp_path / "pipe")
    assert message_of(tmp_path / "pipe") == "FILE is not a Legato artifact: not a regular file"
    (tmp_path / "empty").touch()
    assert message_of(tmp_path / "empty") == "FILE is not a Legato artifact: it is empty"


def test_another_machine(artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legato.base.target, "cpu_flags", lambda: cpu_flags() - {"avx512f", "avx2"})
    other = forged(artifact, tmp_path, lambda m: m["program"].update(target="x86-64-v3"))
    assert message_of(other) == (
        "FILE was compiled for x86-64-v3, but this CPU lacks avx2\n"
        "  hint: compile it for this machine, or with a target that all your machines have (x86-64-v2, x86-64-v3)"
    )
    verify_file(other)
    unknown = forged(artifact, tmp_path, lambda m: m["program"].update(target="pdp-11"))
    assert message_of(unknown) == "FILE: unknown target 'pdp-11'"
    abi = forged(artifact, tmp_path, lambda m: m["program"].update(abi=9))
    assert message_of(abi) == (
        f"FILE was compiled for version 9 of the runtime; this one is {ABI}\n  hint: compile the model again"
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.clear(),
        lambda m: m["sections"].pop("code"),
        lambda m: m["sections"]["code"].__setitem__(0, 8),
        lambda m: m["sections"]["code"].__setitem__(0, 2**62),
        lambda m: m["sections"]["code"].__setitem__(1, 2**62),
        lambda m: m["sections"]["constants"].__setitem__(1, 64),
        lambda m: m.update(crc32c=[]),
        lambda m: m.update(crc32c=[-1, 0]),
        lambda m: m.update(code_size=0),
        lambda m: m.update(code_size=2**40),
        lambda m: m.update(constants=[["w", 1, 4]]),
        lambda m: m.update(constants=[["w", 0, 2**40]]),
        lambda m: m["program"]["functions"]["main"].update(offset=5000),
        lambda m: m["program"]["functions"]["main"].update(words=[["input", 7]]),
        lambda m: m["program"]["functions"]["main"].update(structure=[0, 0]),
        lambda m: m["program"].update(stats=3),
    ],
)
def test_forged_manifest(artifact: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    message_of(forged(artifact, tmp_path, change))


def entry(m: dict[str, Any]) -> Any:
    return m["program"]["functions"]["main"]


@pytest.mark.parametrize("call", [load, verify_file])
@pytest.mark.parametrize(
    "change",
    [
        lambda m: entry(m)["outputs"][0].update(shape=[0]),
        lambda m: entry(m)["inputs"][0].update(shape=[["*", "n", 2]]),
        lambda m: entry(m)["inputs"][0].update(dtype="int8"),
        lambda m: entry(m)["dims"][0].update(hi=7),
        lambda m: entry(m)["words"].reverse(),
        lambda m: entry(m).update(offset=0),
        lambda m: entry(m).update(is_recursive=True),
        lambda m: entry(m).update(workspace=1),
        lambda m: m["program"].update(checks=[]),
        lambda m: m["constants"].pop(),
        lambda m: m["sections"]["constants"].__setitem__(1, m["sections"]["constants"][1] - 64),
    ],
)
def test_a_manifest_is_not_believed_that_its_code_does_not_know(
    artifact: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], call: Callable[[Path], object]
) -> None:
    said = message_of(forged(artifact, tmp_path, change, sealed=False), call)
    assert said.startswith(("FILE is damaged: its manifest does not fit its code", "FILE is damaged: there are bytes"))


@pytest.mark.parametrize("place", [-8, 2**40])
def test_forged_relocations(tmp_path: Path, place: int) -> None:
    exe = executable()
    path = tmp_path / "model.legato"
    exe._parts.relocations[:1] = place
    exe.save(path)
    assert message_of(path).startswith("FILE is damaged: its relocations lie outside the code")


def test_random_files(artifact: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    data = artifact.read_bytes()
    path = tmp_path / "random.legato"
    for _ in range(200):
        noise = rng.integers(0, 256, int(rng.integers(1, 300)), np.uint8).tobytes()
        path.write_bytes(data[: int(rng.integers(0, 200))] + noise)
        with pytest.raises(LegatoError):
            load(path)


def test_checksums_of_large_data_are_those_of_its_parts() -> None:
    data = np.random.default_rng(0).integers(0, 256, LARGE + 12345, np.uint8)
    chunk = 3 << 20
    sums = crc32c_chunks(data, chunk)
    parts = [crc32c_chunks(data[at : at + chunk], chunk) for at in range(0, data.size, chunk)]
    np.testing.assert_array_equal(sums, np.concatenate(parts))


def test_where_the_system_has_no_more_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = image()
    constants = [("w", np.array([3], np.float32)), ("b", np.zeros(LARGE, np.uint8))]
    exe = Executable.from_parts(program(), made.data, made.code_size, made.relocations, constants, host_ops=twice)
    exe.save(tmp_path / "model.legato")

    def refuse(thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    again = load(tmp_path / "model.legato")
    np.testing.assert_array_equal(again(X), X * 3)  # type: ignore[arg-type]
    again.save(tmp_path / "copy.legato")
    assert (tmp_path / "copy.legato").read_bytes() == (tmp_path / "model.legato").read_bytes()


def test_altered_manifests_load_or_are_refused(artifact: Path, tmp_path: Path) -> None:
    rng = Random(3)
    refused = 0
    for n in range(300):

        def change(manifest: dict[str, Any]) -> None:
            new = altered(manifest, rng)
            if isinstance(new, dict):
                manifest.clear()
                manifest.update(new)

        try:
            path = forged(artifact, tmp_path, change, sealed=bool(n % 2))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, struct.error):
            continue  # the forger needs some of it
        try:
            repr(load(path))
        except LegatoError:
            refused += 1
    assert refused > 150
