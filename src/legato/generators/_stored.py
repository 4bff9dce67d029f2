"""Functions as bytes: what a program's file has of those that a generator is to compile again."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from legato.base.errors import ParseError
from legato.ir.expr import Function, GlobalVar
from legato.ir.files import tensor_bytes, tensors_of
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ir.module import Module
from legato.ir.op import Op

__all__ = ["from_bytes", "to_bytes"]

_LENGTH: Final = struct.Struct("<Q")


def to_bytes(func: Function) -> bytes:
    """A typed function of operators, with its constants."""
    arrays: dict[str, Any] = {}
    text = save_json(Module({GlobalVar("main"): func}), tensors=arrays).encode()
    return _LENGTH.pack(len(text)) + text + tensor_bytes(arrays)


def from_bytes(data: bytes, source: str, ops: Mapping[str, Op]) -> Function:
    """The function that `to_bytes` wrote, of these operators; ParseError for other bytes, which come from `source`."""
    if len(data) < _LENGTH.size:
        raise ParseError(f"{source}: no function")
    end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
    try:
        text = data[_LENGTH.size : end].decode()
    except UnicodeDecodeError as error:
        raise ParseError(f"{source}: not UTF-8: {error}") from None
    found = load_json(text, ops=ops, name=source, tensors=tensors_of(data[end:], source))["main"]
    if not isinstance(found, Function):
        raise ParseError(f"{source}: a loop-level function")
    return found
