"""One file for a compiled program: written atomically, read into memory and checked there.

    prefix     56 bytes: magic, format, bytes of the manifest, bytes of the file, SHA-256 of all that and the manifest
    manifest   JSON: the program, the constants' places, and for each section its offset, size and SHA-256
    sections   in order, each aligned, the gaps zero: source, stages, code, relocations, constants

Reading checks the SHA-256 of the manifest and of every section but the constants; those, which may be large, by the
CRC32C of each megabyte. So no flipped byte and no truncation goes unnoticed, and what becomes of the file later does no
harm, unless its constants are mapped. `verify` checks the SHA-256 of the constants too.

The code ends with a seal: the SHA-256 of the code and of all that it relies on, which are shapes, formulas, ranges and
constraints, the order of arguments, relocations, places of constants. Whoever changes those and makes the hashes again
has a manifest that does not fit its code. A hash shows that a file is whole, not that it is benign: code in an artifact
is run.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import IO, BinaryIO, Final, Self

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import ArtifactError, CompileError
from legato.base.files import open_regular, replace_file
from legato.base.target import missing_features, target
from legato.runtime.binding import address, crc32c_chunks, in_two
from legato.runtime.parts import ALIGNMENT, ConstantInfo, Parts, new_segment
from legato.runtime.program import ABI, FORMAT, Program, program_from_json
from legato.runtime.reader import Reader, parse_json

__all__ = ["from_bytes", "read", "target_of", "to_bytes", "verify_file", "write"]

# The first byte is not ASCII and line ends of both kinds follow: what breaks binary files breaks this at once.
MAGIC: Final = b"\x89LEGATO\n"
_PREFIX: Final = struct.Struct("<8sIIQ32s")  # magic, format, manifest bytes, file bytes, SHA-256
_HASHED: Final = 24  # bytes of the prefix before the hash
MAX_MANIFEST: Final = 64 << 20
CHUNK: Final = 1 << 20  # of constants, per CRC
PAGE: Final = 4096
_SEAL: Final = 32  # bytes behind the image
_IN_MEMORY: Final = Path("<bytes>")
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


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


# ---------------------------------------------------------------------------------------------------- writing


def write(path: Path, parts: Parts) -> None:
    """Write `parts` into the file `path`, replacing it only when all is on the disk; ArtifactError if that fails."""

    def write_file(temporary: Path) -> None:
        with open(temporary, "wb") as file:
            _write_file(file, parts)

    try:
        replace_file(path, write_file)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror or error}") from error


def to_bytes(parts: Parts) -> bytes:
    """What `write` writes."""
    file = io.BytesIO()
    _write_file(file, parts)
    return file.getvalue()


def _bodies(parts: Parts) -> dict[str, memoryview]:
    """The content of each section."""
    program = parts.program
    relocations = parts.relocations.astype("<i8").tobytes()
    relies_on = _relies_on(program.to_json(), parts.code_size, [[c.name, c.offset, c.size] for c in parts.constants])
    image = parts.image.tobytes()
    return {
        "source": memoryview(program.source.encode()),
        "stages": memoryview(json.dumps(dict(program.stages)).encode()),
        "code": memoryview(image + _seal(hashlib.sha256(image), relocations, parts.segment.size, relies_on)),
        "relocations": memoryview(relocations),
        "constants": parts.segment.data,
    }


def _write_file(file: BinaryIO, parts: Parts) -> None:
    """The sections, then the head before them: the constants' hash is computed while they are written."""
    bodies = _bodies(parts)
    digests = {name: hashlib.sha256(body).hexdigest() for name, body in bodies.items() if name != "constants"}
    crc = crc32c_chunks(parts.segment, CHUNK).tolist()
    sections = _placed(bodies, {**digests, "constants": hashlib.sha256().hexdigest()})
    start = len(_head(parts, sections, crc))  # every hash is as long
    with _Hashing(bodies["constants"]) as hashing:
        for name, section in sections.items():
            file.seek(start + section.offset)
            file.write(bodies[name])
        file.write(bytes(start + section.end - file.seek(0, io.SEEK_END)))  # the last one may be empty, behind a gap
        file.seek(0)
        file.write(_head(parts, _placed(bodies, {**digests, "constants": hashing.digest()}), crc))


def _relies_on(program: object, code_size: object, constants: object) -> bytes:
    """What the code takes for granted of the manifest, as text that is the same before and after a round trip."""
    return json.dumps([program, code_size, constants], sort_keys=True, separators=(",", ":")).encode()


def _seal(image: hashlib._Hash, relocations: bytes, segment: int, relies_on: bytes) -> bytes:
    """What stands behind the image whose hash is `image`."""
    found = hashlib.sha256(image.digest())
    found.update(struct.pack("<QQ", len(relocations), segment) + relocations + relies_on)
    return found.digest()


class _Hashing:
    """Computes the SHA-256 of `data`, which must live as long as this, while something else is done."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._hash = data, hashlib.sha256()
        self._thread: Thread | None = Thread(target=self._hash.update, args=(data,))

    def __enter__(self) -> Self:
        assert self._thread is not None
        try:
            self._thread.start()
        except RuntimeError:  # no more threads
            self._thread = None
            self._hash.update(self._data)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._thread is not None:
            self._thread.join()

    def digest(self) -> str:
        """The digest, in hexadecimal."""
        if self._thread is not None:
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


# ---------------------------------------------------------------------------------------------------- reading


def read(path: Path, *, mapped: bool = False, anywhere: bool = False) -> Parts:
    """The parts in the file `path`, checked; ArtifactError where it cannot be used here. anywhere: where it is whole,
    for whichever machine it is; it is to be looked at.

    mapped: the constants are not read into memory of this process's own but stay the file's pages, which all processes
    that map the file share. Nobody may write to the file then; to replace it, as `write` does, is no harm.
    """
    with _opened(path) as file:
        parts = _read(_File(file, path), mapped)
    if not anywhere:
        _check_machine(path, parts.program)
    return parts


def from_bytes(data: bytes | memoryview, *, mapped: bool = False) -> Parts:
    """The parts that `to_bytes` gave, as `read` has them. mapped: the constants stay where they are in `data`."""
    parts = _read(_Bytes(data), mapped)
    _check_machine(_IN_MEMORY, parts.program)
    return parts


def target_of(path: Path) -> str:
    """The name of the target that the artifact `path` was compiled for, which may be another machine's; ArtifactError
    for a file that is none."""
    with _opened(path) as file:
        return _manifest(_File(file, path))[0]["program"]["target"].text()


def _read(file: _Source, mapped: bool) -> Parts:
    path = file.path
    manifest, base = _manifest(file)
    sections = _sections(file, manifest, base)
    small = {name: file.checked(name, section) for name, section in sections.items() if name != "constants"}
    image = _sealed(path, small["code"], small["relocations"], sections, manifest)
    segment, owner = _constants(file, sections["constants"], manifest, mapped)
    return _parts(path, manifest, {**small, "code": image}, segment, owner)


def verify_file(path: Path) -> dict[str, str]:
    """The SHA-256 of each section of the artifact `path`, all checked; ArtifactError where one differs.

    Every byte of the file is covered. Works for artifacts of other machines too.
    """
    with _opened(path) as opened:
        file = _File(opened, path)
        manifest, base = _manifest(file)
        sections = _sections(file, manifest, base)
        small = {name: file.checked(name, section) for name, section in sections.items() if name != "constants"}
        _sealed(path, small["code"], small["relocations"], sections, manifest)
        file.check_hash("constants", sections["constants"])
    return {name: section.sha256 for name, section in sections.items()}


def _opened(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except OSError as error:
        if error.errno == errno.EINVAL:
            raise ArtifactError(f"{path} is not a Legato artifact: {error.strerror}") from error
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from error


class _Source(ABC):
    """The bytes of an artifact that is being read; ArtifactError where the system refuses, or they end."""

    path: Path
    size: int

    @abstractmethod
    def into(self, view: memoryview, offset: int) -> None:
        """Fills `view` with the bytes from `offset` on. Any number of threads may do this at once."""

    @abstractmethod
    def mapped(self, section: _Section) -> np.ndarray:
        """The bytes of a section, where they are: not to be written to."""

    def at(self, offset: int, size: int) -> bytes:
        """The bytes at `offset`."""
        found = bytearray(size)
        self.into(memoryview(found), offset)
        return bytes(found)

    def checked(self, name: str, section: _Section) -> bytes:
        """The bytes of a section, whose hash is right."""
        found = self.at(section.offset, section.size)
        self._compare(name, section, hashlib.sha256(found))
        return found

    def check_hash(self, name: str, section: _Section) -> None:
        """The same for a section that is not kept."""
        found = hashlib.sha256()
        for offset in range(section.offset, section.end, CHUNK):
            found.update(self.at(offset, min(CHUNK, section.end - offset)))
        self._compare(name, section, found)

    def _compare(self, name: str, section: _Section, found: hashlib._Hash) -> None:
        if found.hexdigest() != section.sha256:
            raise _damaged(self.path, f"the SHA-256 of its {name} section differs")


class _File(_Source):
    """Those of a file."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self.path = path
        self._descriptor = file.fileno()
        self.size = os.fstat(self._descriptor).st_size

    def into(self, view: memoryview, offset: int) -> None:
        done = 0
        while done < view.nbytes:
            try:
                count = os.preadv(self._descriptor, [view[done:]], offset + done)
            except OSError as error:
                raise ArtifactError(f"cannot read {self.path}: {error.strerror or error}") from error
            if not count:
                raise _truncated(self.path, offset + done)
            done += count

    def mapped(self, section: _Section) -> np.ndarray:
        import mmap  # on use: few do

        try:
            pages = mmap.mmap(self._descriptor, section.size, mmap.MAP_SHARED, mmap.PROT_READ, offset=section.offset)
        except (OSError, ValueError) as error:  # no room, or the file is shorter by now
            raise ArtifactError(f"cannot map {self.path}: {error}") from error
        return np.frombuffer(pages, np.uint8)


class _Bytes(_Source):
    """Those in memory."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.path = _IN_MEMORY
        self._data = memoryview(data).cast("B")
        self.size = self._data.nbytes

    def into(self, view: memoryview, offset: int) -> None:
        if offset + view.nbytes > self.size:
            raise _truncated(self.path, self.size)
        view[:] = self._data[offset : offset + view.nbytes]

    def mapped(self, section: _Section) -> np.ndarray:
        return np.frombuffer(self._data[section.offset : section.end], np.uint8)


def _truncated(path: Path, size: int) -> ArtifactError:
    return ArtifactError(f"{path} is truncated: it ends after {size} bytes")


def _manifest(file: _Source) -> tuple[Reader, int]:
    """The manifest, as it was written, and where it ends."""
    path = file.path
    if not file.size:
        raise ArtifactError(f"{path} is not a Legato artifact: it is empty")
    if file.size < _PREFIX.size or file.at(0, len(MAGIC)) != MAGIC:
        raise ArtifactError(f"{path} is not a Legato artifact")
    prefix = file.at(0, _PREFIX.size)
    _, version, length, size, digest = _PREFIX.unpack(prefix)
    if version != FORMAT:
        what = "newer than" if version > FORMAT else "older than"
        raise ArtifactError(
            f"{path} has format {version}, {what} the {FORMAT} of this Legato\n"
            f"  hint: {'upgrade Legato' if version > FORMAT else 'compile the model again'}"
        )
    if file.size < size:
        raise ArtifactError(f"{path} is truncated: {file.size} of {size} bytes are left")
    base = _PREFIX.size + length
    if file.size > size or base > size or length > MAX_MANIFEST:
        raise _damaged(path, "its sizes do not fit")
    text = file.at(_PREFIX.size, length)
    if hashlib.sha256(prefix[:_HASHED] + text).digest() != digest:
        raise _damaged(path, "the SHA-256 of its manifest differs")
    return parse_json(text, f"{path}: manifest"), base


def _damaged(path: Path, what: str) -> ArtifactError:
    return ArtifactError(f"{path} is damaged: {what}\n  hint: copy it again, or compile the model again")


def _sections(file: _Source, manifest: Reader, base: int) -> dict[str, _Section]:
    """The sections, which follow each other to the end of the file with nothing but zeros between them."""
    found, end = {}, base
    for name, alignment in _SECTIONS.items():
        offset, size, digest = manifest["sections"][name].list(3)
        section = _Section(base + offset.int(), size.int(), digest.text())
        if section.offset != _align(end, alignment) or section.end > file.size:
            raise _damaged(file.path, f"its {name} section is misplaced")
        if any(file.at(end, section.offset - end)):
            raise _damaged(file.path, f"there are bytes before its {name} section")
        found[name] = section
        end = section.end
    if end != file.size:
        raise _damaged(file.path, "there are bytes behind its last section")
    return found


def _sealed(
    path: Path, code: bytes, relocations: bytes, sections: Mapping[str, _Section], manifest: Reader
) -> memoryview:
    """The image in the code section, whose seal is that of what comes with it."""
    image, seal = memoryview(code)[:-_SEAL], code[-_SEAL:]
    relies_on = _relies_on(*(manifest[key].value for key in ("program", "code_size", "constants")))
    if seal != _seal(hashlib.sha256(image), relocations, sections["constants"].size, relies_on):
        raise _damaged(path, "its manifest does not fit its code")
    return image


def _constants(file: _Source, section: _Section, manifest: Reader, mapped: bool) -> tuple[np.ndarray, object]:
    """The constant segment, and who keeps it: read and checked piece by piece, in two threads where it is large."""
    segment, owner = _segment(file, section, mapped)
    wanted = [crc.int(0, 2**32 - 1) for crc in manifest["crc32c"].list(-(-section.size // CHUNK))]

    def fetch(first: int, end: int) -> None:
        for n in range(first, end):
            piece = segment[n * CHUNK : (n + 1) * CHUNK]
            if segment.flags.writeable:
                file.into(piece.data, section.offset + n * CHUNK)
            if crc32c_chunks(piece, CHUNK)[0] != wanted[n]:
                raise _damaged(file.path, f"the checksum of its constants differs in megabyte {n}")

    in_two(fetch, len(wanted), section.size)
    return segment, owner


def _segment(file: _Source, section: _Section, mapped: bool) -> tuple[np.ndarray, object]:
    """Memory for the constants that is to be filled, or, where they are `mapped`, they themselves, read-only. Bytes in
    memory that lie where code cannot read them are copied."""
    if mapped and section.size:
        found = file.mapped(section)
        found.flags.writeable = False
        if not address(found) % ALIGNMENT:
            return found, found
    return new_segment(section.size)


def _parts(
    path: Path, manifest: Reader, sections: Mapping[str, bytes | memoryview], segment: np.ndarray, owner: object
) -> Parts:
    source = _text(sections["source"], f"{path}: source")
    stages = parse_json(_text(sections["stages"], f"{path}: stages"), f"{path}: stages")
    program = program_from_json(manifest["program"], source, {name: text.text() for name, text in stages.items()})
    image = np.frombuffer(sections["code"], np.uint8)
    parts = Parts(
        program=program,
        image=image,
        code_size=manifest["code_size"].int(1, image.size),
        relocations=_relocations(path, sections["relocations"], image),
        constants=tuple(_constant(c, segment.size) for c in manifest["constants"].list()),
        segment=segment,
        owner=owner,
    )
    for name, function in program.functions.items():
        if function.offset >= parts.code_size:
            raise _damaged(path, f"function {name!r} lies outside the code")
    return parts


def _text(data: bytes | memoryview, where: str) -> str:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{where}: not UTF-8: {error}") from error


def _constant(data: Reader, segment: int) -> ConstantInfo:
    name, offset, size = data.list(3)
    info = ConstantInfo(name.text(), offset.int(0, segment), size.int(0, segment))
    if info.offset % ALIGNMENT or info.offset + info.size > segment:
        data.fail(f"an aligned constant within {segment} bytes")
    return info


def _relocations(path: Path, section: bytes | memoryview, image: np.ndarray) -> np.ndarray:
    if len(section) % 8:
        raise _damaged(path, "its relocations are no table")
    places = np.frombuffer(section, "<i8").astype(np.int64)
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
