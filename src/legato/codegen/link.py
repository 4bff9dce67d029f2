"""Links objects to one position-independent image that needs no dynamic linker.

    [ executable sections | read-only data | padding to a page ][ writable data, slots of absolute addresses ]

Everything is relative to the image but the `relocations`: 8-byte slots to which the loader adds the load address.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.codegen.elf import ElfObject, Relocation, Section, read_object
from legato.codegen.symbols import name_of

__all__ = ["PAGE", "Image", "link"]

PAGE = 4096
_R_64, _R_PC32, _R_PLT32, _R_GOTPCREL, _R_PC64, _R_GOTPCRELX, _R_REX_GOTPCRELX = 1, 2, 4, 9, 24, 41, 42
_ABSOLUTE_32 = {10: "R_X86_64_32", 11: "R_X86_64_32S"}
_GOT = frozenset({_R_GOTPCREL, _R_GOTPCRELX, _R_REX_GOTPCRELX})
_IGNORED = (".eh_frame", ".note")  # nothing unwinds through generated code


@dataclass(frozen=True, slots=True)
class Image:
    """Linked code: `data` is mapped as it is, its first `code_size` bytes (whole pages) read-only and executable.

    `relocations` are offsets of 8-byte slots to which the load address is added; `exports` maps names to offsets.
    """

    data: bytes
    code_size: int
    relocations: tuple[int, ...]
    exports: dict[str, int]


def link(objects: Sequence[bytes], exports: Iterable[str], names: Sequence[Mapping[str, str]] = ()) -> Image:
    """The image of `objects` in this order; `exports` are the names that the loader needs.

    `names` says for the first objects, one by one, how global symbols that they define are called here. The same
    objects give the same bytes. InternalError names symbols that are undefined or defined twice.
    """
    return _Linker([read_object(data) for data in objects], names).image(list(exports))


class _Linker:
    def __init__(self, objects: Sequence[ElfObject], names: Sequence[Mapping[str, str]]) -> None:
        self.objects = objects
        self.names = names
        self.places: dict[tuple[int, int], int] = {}  # (object, section) -> offset in the image
        self.data = bytearray()
        self.globals = self._globals()
        self.relocations: list[int] = []
        self.slots: dict[int, int] = {}  # target -> offset of the slot that holds its address

    def _globals(self) -> dict[str, tuple[int, int, int]]:
        """(object, section, offset) of every global symbol."""
        found: dict[str, tuple[int, int, int]] = {}
        for n, obj in enumerate(self.objects):
            names = self.names[n] if n < len(self.names) else {}
            for symbol in obj.symbols:
                if symbol.is_global and symbol.section is not None:
                    own = name_of(symbol.name)
                    name = names.get(own, own)
                    if name in found:
                        raise InternalError(f"symbol {name!r} is defined in two objects")
                    found[name] = (n, symbol.section, symbol.value)
        return found

    def image(self, exports: list[str]) -> Image:
        """Lays out, resolves and checks everything."""
        missing = {name_of(s.name) for o in self.objects for s in o.symbols if s.is_global and s.section is None}
        missing = (missing | set(exports)) - self.globals.keys()
        if missing:
            raise InternalError("undefined symbols: " + ", ".join(sorted(missing)))
        self._place(lambda s: s.executable)
        self._place(lambda s: not s.executable and not s.writable and not _has_addresses(s))
        self._align(PAGE)
        code_size = len(self.data)
        self._place(lambda s: not s.executable and (s.writable or _has_addresses(s)))
        self._align(8)
        for (n, index), place in self.places.items():
            for r in self.objects[n].sections[index].relocations:
                self._apply(n, place, r)
        offsets = {name: self._global(name) for name in exports}
        return Image(bytes(self.data), code_size, tuple(sorted(self.relocations)), offsets)

    def _place(self, wanted: Callable[[Section], bool]) -> None:
        for n, obj in enumerate(self.objects):
            for index, section in obj.sections.items():
                if section.data and not section.name.startswith(_IGNORED) and wanted(section):
                    self._align(section.align)
                    self.places[n, index] = len(self.data)
                    self.data += section.data

    def _align(self, to: int) -> None:
        self.data += bytes(-len(self.data) % to)

    def _global(self, name: str) -> int:
        n, section, value = self.globals[name]
        return self._section(n, section) + value

    def _section(self, n: int, index: int) -> int:
        place = self.places.get((n, index))
        if place is None:
            raise InternalError(f"a symbol lies in section {index}, which is not part of the image")
        return place

    def _symbol(self, n: int, index: int) -> int:
        symbol = self.objects[n].symbols[index]
        if symbol.section is None:
            return self._global(name_of(symbol.name))  # defined elsewhere, under the name that it has there
        return self._section(n, symbol.section) + symbol.value

    def _apply(self, n: int, place: int, r: Relocation) -> None:
        where, target = place + r.offset, self._symbol(n, r.symbol)
        if r.kind in (_R_PC32, _R_PLT32):
            self._patch("<i", where, target + r.addend - where)
        elif r.kind == _R_PC64:
            self._patch("<q", where, target + r.addend - where)
        elif r.kind == _R_64:
            self._patch("<q", where, target + r.addend)
            self.relocations.append(where)
        elif r.kind in _GOT:
            self._patch("<i", where, self._slot(target) + r.addend - where)
        else:
            name = _ABSOLUTE_32.get(r.kind, f"type {r.kind}")
            symbol = self.objects[n].symbols[r.symbol].name
            raise InternalError(f"relocation {name} against {symbol!r} cannot be position independent")

    def _slot(self, target: int) -> int:
        """The slot that holds the address of `target`, for code that loads addresses from a table."""
        slot = self.slots.get(target)
        if slot is None:
            slot = self.slots[target] = len(self.data)
            self.data += struct.pack("<q", target)
            self.relocations.append(slot)
        return slot

    def _patch(self, form: str, where: int, value: int) -> None:
        try:
            struct.pack_into(form, self.data, where, value)
        except struct.error as error:
            raise InternalError(f"a distance of {value} bytes does not fit a 32-bit relocation") from error


def _has_addresses(section: Section) -> bool:
    return any(r.kind == _R_64 for r in section.relocations)
