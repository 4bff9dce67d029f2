"""Reads ELF64 relocatable objects: sections, symbols, relocations. Only what LLVM writes for x86-64."""

from __future__ import annotations

import struct

from legato.base.dataclass import dataclass
from legato.base.errors import InternalError

__all__ = ["ElfObject", "Relocation", "Section", "Symbol", "read_object"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")
_RELOCATABLE, _X86_64 = 1, 62
_SYMTAB, _RELA_TYPE, _NOBITS = 2, 4, 8
_WRITE, _ALLOC, _EXECUTE, _TLS = 1, 2, 4, 0x400
_UNDEFINED, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2
_GLOBAL_BINDINGS = (1, 2)


@dataclass(frozen=True, slots=True)
class Relocation:
    """Patch the place at `offset` of a section with symbol number `symbol` plus `addend`, as `kind` says."""

    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class Section:
    """A section that is loaded; `data` is all zeros for one without contents in the file."""

    name: str
    data: bytes
    align: int
    writable: bool
    executable: bool
    relocations: tuple[Relocation, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol: its section's number (None: undefined) and offset in it."""

    name: str
    section: int | None
    value: int
    is_global: bool


@dataclass(frozen=True, slots=True)
class ElfObject:
    """The loaded sections of an object by number, and all its symbols."""

    sections: dict[int, Section]
    symbols: tuple[Symbol, ...]


def read_object(data: bytes) -> ElfObject:
    """Reads an object that our code generator wrote; InternalError for anything else."""
    if len(data) < _HEADER.size or data[:6] != b"\x7fELF\x02\x01":
        raise InternalError("not a little-endian ELF64 object")
    header = _HEADER.unpack_from(data)
    if header[1] != _RELOCATABLE or header[2] != _X86_64:
        raise InternalError(f"ELF type {header[1]} for machine {header[2]}, wanted a relocatable object for x86-64")
    offset, size, count, names = header[6], header[11], header[12], header[13]
    raw = [_SECTION.unpack_from(data, offset + n * size) for n in range(count)]
    strings = _contents(data, raw[names])
    relocations = {h[7]: _relocations(data, h) for h in raw if h[1] == _RELA_TYPE}
    sections = {
        n: _section(_string(strings, h[0]), data, h, relocations.get(n, ())) for n, h in enumerate(raw) if h[2] & _ALLOC
    }
    symbols = [h for h in raw if h[1] == _SYMTAB]
    table = _symbols(data, symbols[0], _contents(data, raw[symbols[0][6]])) if symbols else ()
    return ElfObject(sections, table)


def _contents(data: bytes, header: tuple[int, ...]) -> bytes:
    return bytes(header[5]) if header[1] == _NOBITS else data[header[4] : header[4] + header[5]]


def _string(table: bytes, offset: int) -> str:
    return table[offset : table.index(b"\0", offset)].decode()


def _section(name: str, data: bytes, header: tuple[int, ...], relocations: tuple[Relocation, ...]) -> Section:
    flags = header[2]
    if flags & _TLS:
        raise InternalError(f"section {name} is thread-local")
    writable, executable = bool(flags & _WRITE), bool(flags & _EXECUTE)
    return Section(name, _contents(data, header), max(1, header[8]), writable, executable, relocations)


def _relocations(data: bytes, header: tuple[int, ...]) -> tuple[Relocation, ...]:
    entries = _RELA.iter_unpack(_contents(data, header))
    return tuple([Relocation(offset, info & 0xFFFFFFFF, info >> 32, addend) for offset, info, addend in entries])


def _symbols(data: bytes, header: tuple[int, ...], strings: bytes) -> tuple[Symbol, ...]:
    result = []
    for name, info, _, section, value, _ in _SYMBOL.iter_unpack(_contents(data, header)):
        text = _string(strings, name)
        if section in (_ABSOLUTE, _COMMON) and info & 15 != 4:  # 4: the name of the source file
            raise InternalError(f"symbol {text!r} is absolute or common")
        place = None if section in (_UNDEFINED, _ABSOLUTE) else section
        result.append(Symbol(text, place, value, info >> 4 in _GLOBAL_BINDINGS))
    return tuple(result)
