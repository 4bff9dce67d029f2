"""Artifacts with other manifests and sections, and with hashes that fit them: what a damaged file cannot be."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from legato.runtime.artifact import _SECTIONS, CHUNK, PAGE, _align, _relies_on, _seal
from legato.runtime.binding import crc32c_chunks

__all__ = ["PREFIX", "Change", "forged"]

PREFIX = struct.Struct("<8sIIQ32s")
_SEALED = {"program", "code_size", "constants"}
Change = Callable[[dict[str, Any], dict[str, bytearray]], object]  # of the manifest and the sections, in place


def forged(data: bytes, change: Change, *, sealed: bool) -> bytes:
    """The bytes of an artifact, changed, with hashes that fit.

    sealed: its code says that it belongs to that manifest.
    """
    magic, version, length, *_ = PREFIX.unpack(data[: PREFIX.size])
    base = PREFIX.size + length
    manifest = json.loads(data[PREFIX.size : base])
    bodies = {name: bytearray(data[base + at : base + at + n]) for name, (at, n, _) in manifest["sections"].items()}
    before = {name: bytes(body) for name, body in bodies.items()}
    change(manifest, bodies)
    if bodies != before:
        _place(manifest, bodies)
    if sealed and manifest.keys() >= _SEALED and "code" in manifest["sections"]:
        _reseal(manifest, bodies)
    rest = bytearray()
    for name, alignment in _SECTIONS.items():
        rest += bytes(_align(len(rest), alignment) - len(rest)) + bodies[name]
    text = json.dumps(manifest).encode()
    text = text.ljust(_align(PREFIX.size + len(text), PAGE) - PREFIX.size)
    head = PREFIX.pack(magic, version, len(text), PREFIX.size + len(text) + len(rest), b"")[:24]
    return head + hashlib.sha256(head + text).digest() + text + rest


def _reseal(manifest: dict[str, Any], bodies: dict[str, bytearray]) -> None:
    relies_on = _relies_on(*(manifest[key] for key in ("program", "code_size", "constants")))
    image = bodies["code"][:-32]
    seal = _seal(hashlib.sha256(image), bytes(bodies["relocations"]), manifest["sections"]["constants"][1], relies_on)
    bodies["code"][:] = image + seal
    manifest["sections"]["code"][2] = hashlib.sha256(bodies["code"]).hexdigest()


def _place(manifest: dict[str, Any], bodies: dict[str, bytearray]) -> None:
    """Says where the sections lie now, and what their hashes are."""
    end = 0
    for name, alignment in _SECTIONS.items():
        end = _align(end, alignment)
        manifest["sections"][name] = [end, len(bodies[name]), hashlib.sha256(bodies[name]).hexdigest()]
        end += len(bodies[name])
    manifest["crc32c"] = crc32c_chunks(np.frombuffer(bodies["constants"], np.uint8), CHUNK).tolist()
