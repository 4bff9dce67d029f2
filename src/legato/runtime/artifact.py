"""One file for a compiled program: written atomically, mapped and checked when read.

    prefix     56 bytes: magic, format, bytes of the manifest, bytes of the file, SHA-256 of all that and the manifest
    manifest   JSON: the program, the constants' places, and for each section its offset, size and SHA-256
    sections   in order, each aligned, the gaps zero: source, stages, code, relocations, constants

Reading checks the SHA-256 of the manifest and of every section but the constants; those, which are mapped and may be
large, by the CRC32C of each megabyte. So no flipped byte and no truncation goes unnoticed. `verify` checks the SHA-256
of the constants too. A hash shows that a file is whole, not that it is benign: code in an artifact is run.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import stat
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Final, Self

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import ArtifactError, CompileError
from legato.base.target import missing_features, target
from legato.runtime.binding import crc32c_chunks
from legato.runtime.parts import ALIGNMENT, ConstantInfo, Parts
from legato.runtime.program import ABI, FORMAT, Program, program_from_json
from legato.runtime.reader import Reader, parse_json

__all__ = ["read", "verify_file", "write"]

# The first byte is not ASCII and line ends of both kinds follow: what breaks binary files breaks this at once.
MAGIC: Final = b"\x89LEGATO\n"
_PREFIX: Final = struct.Struct("<8sIIQ32s")  # magic, format, manifest bytes, file bytes, SHA-256
_HASHED: Final = 24  # bytes of the prefix before the hash
MAX_MANIFEST: Final = 64 << 20
CHUNK: Final = 1 << 20  # of constants, per CRC
PAGE: Final = 4096
_SECTIONS: Final = {"source": 8, "stages": 8, "code": 8, "relocations": 8, "constants": PAGE}  # their alignment


@dataclass(frozen=True, slots=True)
class _Section:
    """A section of the file."""

    offset: int
    size: int
    sha256: str

    @property
    def end(self) -> int:
        return self.offset + self.size

    def of(self, data: np.ndarray) -> np.ndarray:
        """Its bytes, of those of the file."""
        return data[self.offset : self.end]


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


# ---------------------------------------------------------------------------------------------------- writing


def write(path: Path, parts: Parts) -> None:
    """Write `parts` into the file `path`, replacing it only when all is on the disk; ArtifactError if that fails."""
    program = parts.program
    bodies = {
        "source": memoryview(program.source.encode()),
        "stages": memoryview(json.dumps(dict(program.stages)).encode()),
        "code": parts.image.data,
        "relocations": parts.relocations.astype("<i8").data.cast("B"),
        "constants": parts.segment.data,
    }
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        _write_file(temporary, parts, bodies)
        os.replace(temporary, path)
        _sync(path.parent, os.O_DIRECTORY)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _write_file(path: Path, parts: Parts, bodies: dict[str, memoryview]) -> None:
    """The sections, then the head before them: the constants' hash is computed while they are written."""
    digests = {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items() if name != "constants"}
    crc = crc32c_chunks(parts.segment, CHUNK).tolist()
    sections = _placed(bodies, {**digests, "constants": hashlib.sha256().hexdigest()})
    start = len(_head(parts, sections, crc))  # every hash is as long
    with open(path, "xb") as file, _Hashing(bodies["constants"]) as hashing:
        for name, section in sections.items():
            file.seek(start + section.offset)
            file.write(bodies[name])
        file.truncate(start + section.end)  # the last one may be empty, behind a gap
        file.seek(0)
        file.write(_head(parts, _placed(bodies, {**digests, "constants": hashing.digest()}), crc))
        file.flush()
        os.fsync(file.fileno())


class _Hashing:
    """Computes the SHA-256 of `data`, which must live as long as this, while something else is done."""

    def __init__(self, data: memoryview) -> None:
        self._hash = hashlib.sha256()
        self._thread = Thread(target=self._hash.update, args=(data,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.join()

    def digest(self) -> str:
        """The digest, in hexadecimal."""
        self._thread.join()
        return self._hash.hexdigest()


def _placed(bodies: Mapping[str, memoryview], digests: Mapping[str, str]) -> dict[str, _Section]:
    """The sections, which follow each other."""
    sections: dict[str, _Section] = {}
    end = 0
    for name, alignment in _SECTIONS.items():
        sections[name] = _Section(_align(end, alignment), bodies[name].nbytes, digests[name])
        end = sections[name].end
    return sections


def _head(parts: Parts, sections: Mapping[str, _Section], crc: Sequence[int]) -> bytes:
    """The prefix and the manifest."""
    manifest = {
        "program": parts.program.to_json(),
        "code_size": parts.code_size,
        "constants": [[c.name, c.offset, c.size] for c in parts.constants],
        "crc32c": crc,
        "sections": {name: [s.offset, s.size, s.sha256] for name, s in sections.items()},
    }
    text = json.dumps(manifest, separators=(",", ":")).encode()
    text = text.ljust(_align(_PREFIX.size + len(text), PAGE) - _PREFIX.size)  # sections begin on a page
    end = max(section.end for section in sections.values())
    head = _PREFIX.pack(MAGIC, FORMAT, len(text), _PREFIX.size + len(text) + end, b"")[:_HASHED]
    return head + hashlib.sha256(head + text).digest() + text


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---------------------------------------------------------------------------------------------------- reading


def read(path: Path) -> Parts:
    """The parts in the file `path`, checked, the constants mapped; ArtifactError where it cannot be used here."""
    data, manifest, base = _open(path)
    sections = _sections(path, data, manifest, base)
    for name in _SECTIONS:
        if name != "constants":
            _check_hash(path, data, sections, name)
    segment = sections["constants"].of(data)
    _check_crc(path, manifest, segment)
    return _parts(path, data, manifest, sections)


def verify_file(path: Path) -> dict[str, str]:
    """The SHA-256 of each section of the artifact `path`, all checked; ArtifactError where one differs.

    Every byte of the file is covered. Works for artifacts of other machines too.
    """
    data, manifest, base = _open(path)
    sections = _sections(path, data, manifest, base)
    for name in _SECTIONS:
        _check_hash(path, data, sections, name)
    return {name: section.sha256 for name, section in sections.items()}


def _open(path: Path) -> tuple[np.ndarray, Reader, int]:
    """The file's bytes, its manifest, and where the manifest ends; both are as they were written."""
    data = _map(path)
    if data.size < _PREFIX.size or data[: len(MAGIC)].tobytes() != MAGIC:
        raise ArtifactError(f"{path} is not a Legato artifact")
    _, version, length, size, digest = _PREFIX.unpack(data[: _PREFIX.size].tobytes())
    if version != FORMAT:
        what = "newer than" if version > FORMAT else "older than"
        raise ArtifactError(
            f"{path} has format {version}, {what} the {FORMAT} of this Legato\n"
            f"  hint: {'upgrade Legato' if version > FORMAT else 'compile the model again'}"
        )
    if data.size < size:
        raise ArtifactError(f"{path} is truncated: {data.size} of {size} bytes are left")
    base = _PREFIX.size + length
    if data.size > size or base > size or length > MAX_MANIFEST:
        raise _damaged(path, "its sizes do not fit")
    text = data[_PREFIX.size : base].tobytes()
    if hashlib.sha256(data[:_HASHED].tobytes() + text).digest() != digest:
        raise _damaged(path, "the SHA-256 of its manifest differs")
    return data, parse_json(text, f"{path}: manifest"), base


def _map(path: Path) -> np.ndarray:
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ArtifactError(f"{path} is not a Legato artifact: not a regular file")
            if not os.fstat(file.fileno()).st_size:
                raise ArtifactError(f"{path} is not a Legato artifact: it is empty")
            return np.frombuffer(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ), np.uint8)
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from error


def _damaged(path: Path, what: str) -> ArtifactError:
    return ArtifactError(f"{path} is damaged: {what}\n  hint: copy it again, or compile the model again")


def _sections(path: Path, data: np.ndarray, manifest: Reader, base: int) -> dict[str, _Section]:
    """The sections, which follow each other to the end of the file with nothing but zeros between them."""
    found, end = {}, base
    for name, alignment in _SECTIONS.items():
        offset, size, digest = manifest["sections"][name].list(3)
        section = _Section(base + offset.int(), size.int(), digest.text())
        if section.offset != _align(end, alignment) or section.end > data.size:
            raise _damaged(path, f"its {name} section is misplaced")
        if data[end : section.offset].any():
            raise _damaged(path, f"there are bytes before its {name} section")
        found[name] = section
        end = section.end
    if end != data.size:
        raise _damaged(path, "there are bytes behind its last section")
    return found


def _check_hash(path: Path, data: np.ndarray, sections: dict[str, _Section], name: str) -> None:
    section = sections[name]
    if hashlib.sha256(section.of(data).data).hexdigest() != section.sha256:
        raise _damaged(path, f"the SHA-256 of its {name} section differs")


def _check_crc(path: Path, manifest: Reader, segment: np.ndarray) -> None:
    wanted = [crc.int(0, 2**32 - 1) for crc in manifest["crc32c"].list(-(-segment.size // CHUNK))]
    differ = np.flatnonzero(crc32c_chunks(segment, CHUNK) != np.array(wanted, np.uint32))
    if differ.size:
        raise _damaged(path, f"the checksum of its constants differs in megabyte {differ[0]}")


def _parts(path: Path, data: np.ndarray, manifest: Reader, sections: dict[str, _Section]) -> Parts:
    source = _text(sections["source"].of(data), f"{path}: source")
    stages = parse_json(_text(sections["stages"].of(data), f"{path}: stages"), f"{path}: stages")
    program = program_from_json(manifest["program"], source, {name: text.text() for name, text in stages.items()})
    image, segment = sections["code"].of(data), sections["constants"].of(data)
    parts = Parts(
        program=program,
        image=image,
        code_size=manifest["code_size"].int(1, image.size),
        relocations=_relocations(path, sections["relocations"].of(data), image),
        constants=tuple(_constant(c, segment.size) for c in manifest["constants"].list()),
        segment=segment,
        owner=data,
    )
    for name, function in program.functions.items():
        if function.offset >= parts.code_size:
            raise _damaged(path, f"function {name!r} lies outside the code")
    _check_machine(path, program)
    return parts


def _text(data: np.ndarray, where: str) -> str:
    try:
        return data.tobytes().decode()
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{where}: not UTF-8: {error}") from error


def _constant(data: Reader, segment: int) -> ConstantInfo:
    name, offset, size = data.list(3)
    info = ConstantInfo(name.text(), offset.int(0, segment), size.int(0, segment))
    if info.offset % ALIGNMENT or info.offset + info.size > segment:
        data.fail(f"an aligned constant within {segment} bytes")
    return info


def _relocations(path: Path, section: np.ndarray, image: np.ndarray) -> np.ndarray:
    if section.size % 8:
        raise _damaged(path, "its relocations are no table")
    places = section.view("<i8").astype(np.int64)
    if places.size:
        if places.min() < 0 or places.max() > image.size - 8:
            raise _damaged(path, "its relocations lie outside the code")
        words = image[places[:, None] + np.arange(8)].view("<u8")
        if words.max() > image.size:
            raise _damaged(path, "its relocations point outside the code")
    return places


def _check_machine(path: Path, program: Program) -> None:
    if program.abi != ABI:
        raise ArtifactError(
            f"{path} was compiled for version {program.abi} of the runtime; this one is {ABI}\n"
            "  hint: compile the model again"
        )
    try:
        missing = missing_features(target(program.target))
    except CompileError as error:
        raise ArtifactError(f"{path}: {error.message}") from error
    if missing:
        raise ArtifactError(
            f"{path} was compiled for {program.target}, but this CPU lacks {', '.join(missing)}\n"
            "  hint: compile it for this machine, or with a target that all your machines have (x86-64-v2, x86-64-v3)"
        )
