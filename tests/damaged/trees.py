"""Data with random damage: JSON's, and protobuf's, as both are below all meaning."""

from __future__ import annotations

from random import Random
from typing import Any

__all__ = ["altered", "altered_message", "flipped"]

_VALUES: tuple[Any, ...] = (
    0, -1, 1, 2, 7, 2**31, 2**62, 2**63, 10**30, 1.5, "", "n", "x", None, True, [], {}, [0, 0], ["*", "n", "n"],
    ["select", "n", 1, ["//", "n", 0]], [["+"] * 3] * 3,
)  # fmt: skip
_NUMBERS = (0, 1, 2, 3, 7, 16, 127, 1 << 20, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_WORDS = (b"", b"\xff\xfe", b"Loop", b"If", b"axis", b"x", b"Constant", b"ai.onnx.ml", b"a" * 300)
Field = tuple[int, int, int | bytes]  # number, wire type, value


def altered(data: Any, rng: Random) -> Any:
    """JSON data with one part replaced, removed, repeated, or exchanged for another part of it."""
    if isinstance(data, dict) and data and rng.randrange(8):
        key = rng.choice(list(data))
        if not rng.randrange(12):
            return {k: v for k, v in data.items() if k != key}
        return {**data, key: altered(data[key], rng)}
    if isinstance(data, list) and data and rng.randrange(6):
        at = rng.randrange(len(data))
        change = rng.randrange(12)
        if change == 0:
            return [*data[:at], *data[at + 1 :]]
        part = rng.choice(data) if change == 1 else altered(data[at], rng)
        return [*data[:at], part, *data[at + (change != 2) :]]
    return rng.choice((*_VALUES, [data, data], {"": data}, data + 1 if type(data) is int else data))


def flipped(data: bytes, rng: Random) -> bytes:
    """Bytes with some changed, left out, repeated or put in, or the end cut off."""
    if not data:
        return bytes([rng.randrange(256)])
    new, at, change = bytearray(data), rng.randrange(len(data)), rng.randrange(6)
    if change < 3:
        for _ in range(rng.choice((1, 1, 2, 8))):
            new[rng.randrange(len(new))] ^= 1 << rng.randrange(8)
    elif change == 3:
        del new[at : at + rng.choice((1, 2, 8, 1000))]
    elif change == 4:
        new[at:at] = new[at : at + rng.choice((1, 8, 64))]
    else:
        del new[at:]
    return bytes(new)


# ------------------------------------------------------------------ protobuf


def altered_message(data: bytes, rng: Random) -> bytes:
    """A message with one of its fields, however deep, replaced, removed or repeated: what is around it still fits."""
    fields = _fields(data)
    if not fields:
        return rng.choice(_WORDS) if rng.random() < 0.3 else flipped(data, rng)
    at, change = rng.randrange(len(fields)), rng.randrange(10)
    number, wire, value = fields[at]
    if change == 0:
        del fields[at]
    elif change == 1:
        fields.insert(rng.randrange(len(fields) + 1), rng.choice(fields))
    elif change == 2:
        fields[at] = (rng.choice(fields)[0], wire, value)
    elif change == 3:
        fields[at] = (number, *rng.choice(fields)[1:])
    elif isinstance(value, bytes):
        fields[at] = (number, wire, altered_message(value, rng))
    else:
        fields[at] = (number, wire, rng.choice((value + 1, value - 1, *_NUMBERS)) % (1 << 64))
    return b"".join(map(_encoded, fields))


def _fields(data: bytes) -> list[Field] | None:
    """The fields of a message; None where it is none."""
    found: list[Field] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            found.append((number, wire, value))
        elif wire in (1, 2, 5) and number:
            size, at = _varint(data, at) if wire == 2 else ({1: 8, 5: 4}[wire], at)
            if at + size > len(data):
                return None
            found.append(
                (number, wire, data[at : at + size] if wire == 2 else int.from_bytes(data[at : at + size], "little"))
            )
            at += size
        else:
            return None
        if at < 0:
            return None
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends; an end beyond all data where there is none."""
    value = 0
    for n, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << 7 * n
        if byte < 128:
            return value, at + n + 1
    return 0, len(data) + 1


def _encoded(part: Field) -> bytes:
    number, wire, value = part
    if isinstance(value, bytes):
        return _number(number << 3 | 2) + _number(len(value)) + value
    if wire in (1, 5):
        size = 8 if wire == 1 else 4
        return _number(number << 3 | wire) + (value % (1 << 8 * size)).to_bytes(size, "little")
    return _number(number << 3) + _number(value)


def _number(value: int) -> bytes:
    parts: list[int] = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
