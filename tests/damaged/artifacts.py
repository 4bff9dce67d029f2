"""Damaged artifacts whose hashes, and now and then the seal, fit again: what is behind the checksums."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import legato
from legato import relay
from legato.base.errors import InternalError, LegatoError
from legato.runtime import Executable, load, verify_file
from legato.runtime.artifact import to_bytes
from tests.damaged.trees import altered, flipped
from tests.damaged.use import MEMORY, called
from tests.errors.corpus import PROGRAMS, VERSION
from tests.runtime.forging import PREFIX, Change, forged

__all__ = ["attempt", "made"]


def attempt(number: int, folder: Path) -> bool:
    """An artifact, damaged behind its hashes: loaded, looked at, saved; called where its seal has not been forged, so
    that its code is ours."""
    rng = Random(number)
    data, sealed = rng.choice(made()), rng.random() < 0.5
    path = folder / "model.legato"
    path.write_bytes(_bytes(rng, data, sealed=sealed))
    _look(lambda: verify_file(path))
    exe = load(path, threads=1, memory_limit=MEMORY)
    _look_at(exe, folder)
    if not sealed:
        called(exe)
    return True


def _look(what: Callable[[], object]) -> None:
    try:
        what()
    except InternalError:
        raise
    except LegatoError:
        pass


def _look_at(exe: Executable, folder: Path) -> None:
    repr(exe)
    for what in ("peak_memory", "arguments", "outputs", "results", "kernels", "stats", "constructors", "leaked"):
        _look(lambda name=what: str(getattr(exe, name)))  # type: ignore[misc]
    for stage in (*exe.program.stages, "none"):
        _look(lambda name=stage: exe.module_after(name))  # type: ignore[misc]
    for name in exe.program.functions:
        _look(lambda function=name: exe.entry(function))  # type: ignore[misc]
    _look(lambda: legato.parse(exe.program.source))
    _look(lambda: exe.save(folder / "copy.legato"))


def _bytes(rng: Random, data: bytes, *, sealed: bool) -> bytes:
    """The artifact with one to three changes."""
    if rng.random() < 0.1:  # of what stands before the manifest, too
        head = flipped(data[: PREFIX.size], rng)
        return head + data[PREFIX.size :]
    change, state = _change(rng), rng.getstate()
    try:
        return forged(data, change, sealed=sealed)
    except (
        AttributeError,
        IndexError,
        KeyError,
        OverflowError,
        TypeError,
        ValueError,
        struct.error,
    ):  # too damaged to be sealed
        rng.setstate(state)
        return forged(data, change, sealed=False)


def _change(rng: Random) -> Change:
    is_manifest = rng.random() < 0.7

    def change(manifest: dict[str, Any], bodies: dict[str, bytearray]) -> None:
        for _ in range(rng.choice((1, 1, 2, 3))):
            if not is_manifest:
                name = rng.choice(list(bodies))
                bodies[name][:] = flipped(bytes(bodies[name]), rng)
                continue
            key = rng.choice(("program", "program", "program", "code_size", "constants", "crc32c", "sections"))
            manifest[key] = altered(manifest[key], rng)

    return change


@cache
def made() -> tuple[bytes, ...]:
    """Artifacts of the corpus that compile, of one with weights, and of one for several sizes."""
    found = [_artifact(VERSION + text) for text in PROGRAMS]
    weights = np.arange(300_000, dtype=np.float32).reshape(600, 500)
    x = relay.var("x", shape=(2, 500))
    dense = relay.Function([x], relay.nn.dense(x, relay.const(weights)))
    found.append(_saved(legato.compile(dense, threads=1)))
    rows = VERSION + "def @main(%x: Tensor[(n, 3), float32]) { nn.softmax(%x) }"
    found.append(_saved(legato.compile(legato.parse(rows), shapes={"n": [1, 8, "1..64"]}, keep=["fuse"], threads=1)))
    return tuple(data for data in found if data is not None)


def _artifact(text: str) -> bytes | None:
    try:
        return _saved(legato.compile(legato.parse(text), threads=1))
    except LegatoError:  # some of the corpus have inputs of no known type
        return None


def _saved(exe: Executable) -> bytes:
    return to_bytes(exe._parts)
