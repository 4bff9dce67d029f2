"""Artifacts whose weights stay where they are: in the pages of a file, or in memory that somebody else has."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

import legato
from legato.base.errors import ArtifactError
from legato.runtime import Executable
from legato.runtime.artifact import from_bytes, target_of, to_bytes

DENSE = """
#[version = "0.0.5"]
def @main(%w: Tensor[(5000, 64), float32], %x: Tensor[(n, 64), float32]) { nn.relu(nn.dense(%x, %w)) }
"""
RELU = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 64), float32]) { nn.relu(%x) }
"""


@pytest.fixture(scope="module")
def exe() -> Executable:
    weights = np.random.default_rng(0).standard_normal((5000, 64), np.float32)
    return legato.compile(legato.parse(DENSE), constants={"w": weights})


@pytest.fixture(scope="module")
def artifact(exe: Executable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mapped") / "model.legato"
    exe.save(path)
    return path


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((3, 64), np.float32)


def mapping(path: Path) -> list[str]:
    """The lines of this process's memory map that are pages of the file."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path))]


def test_weights_are_the_pages_of_the_file(exe: Executable, artifact: Path, x: np.ndarray) -> None:
    assert mapping(artifact) == []
    mapped = legato.load(artifact, mapped=True)
    (line,) = mapping(artifact)
    assert line.split()[1] == "r--s", "read-only and shared"
    assert not mapped._parts.segment.flags.writeable
    np.testing.assert_array_equal(mapped(x), exe(x))
    np.testing.assert_array_equal(mapped.with_threads(1)(x), exe(x))
    del mapped
    assert mapping(artifact) == []


def test_a_file_that_is_replaced_leaves_the_weights(
    exe: Executable, artifact: Path, tmp_path: Path, x: np.ndarray
) -> None:
    path = tmp_path / "model.legato"
    path.write_bytes(artifact.read_bytes())
    mapped = legato.load(path, mapped=True)
    legato.compile(legato.parse(RELU)).save(path)
    np.testing.assert_array_equal(mapped(x), exe(x))
    assert legato.load(path)(x).shape == x.shape


@pytest.mark.parametrize("at", [-1, -1_000_000])
def test_damage_of_mapped_weights_is_found(artifact: Path, tmp_path: Path, at: int) -> None:
    data = bytearray(artifact.read_bytes())
    data[at] ^= 1
    path = tmp_path / "damaged.legato"
    path.write_bytes(data)
    with pytest.raises(ArtifactError, match="the checksum of its constants differs in megabyte"):
        legato.load(path, mapped=True)


def test_weights_stay_in_memory_that_somebody_else_has(exe: Executable, x: np.ndarray) -> None:
    data = to_bytes(exe._parts)
    shared = mmap.mmap(-1, len(data))  # begins on a page, as blocks of shared memory do
    shared.write(data)
    parts = from_bytes(memoryview(shared), mapped=True)
    start = np.frombuffer(shared, np.uint8).ctypes.data
    assert start < parts.constants_address < start + len(data)
    np.testing.assert_array_equal(Executable(parts)(x), exe(x))


def test_weights_that_lie_askew_are_copied(exe: Executable, x: np.ndarray) -> None:
    data = to_bytes(exe._parts)
    room = np.empty(len(data) + 128, np.uint8)
    start = -room.ctypes.data % 64 + 1
    askew = room[start : start + len(data)]
    askew[:] = np.frombuffer(data, np.uint8)
    parts = from_bytes(askew.data, mapped=True)
    assert parts.constants_address % 64 == 0
    assert not room.ctypes.data <= parts.constants_address < room.ctypes.data + room.size
    np.testing.assert_array_equal(Executable(parts)(x), exe(x))


def test_bytes_that_end_early_are_refused(exe: Executable) -> None:
    data = to_bytes(exe._parts)
    with pytest.raises(ArtifactError, match="is truncated"):
        from_bytes(data[:-1], mapped=True)


def test_a_program_without_weights_is_mapped(tmp_path: Path) -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(3,), float32]) { nn.relu(%x) }'
    legato.compile(legato.parse(text)).save(tmp_path / "m.legato")
    assert legato.load(tmp_path / "m.legato", mapped=True)(np.array([-1, 0, 2], np.float32)).tolist() == [0, 0, 2]


def test_the_target_of_a_file_is_told_without_its_machine(exe: Executable, artifact: Path, tmp_path: Path) -> None:
    assert target_of(artifact) == exe.target
    (tmp_path / "x.legato").write_bytes(b"no")
    with pytest.raises(ArtifactError, match="is not a Legato artifact"):
        target_of(tmp_path / "x.legato")
