"""Names of functions as symbols: any name as a symbol that LLVM and ELF take and nothing else has, and back."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["name_of", "symbol"]

_PREFIX: Final = "f."  # LLVM's own functions, those of the C library and outlined ones are called otherwise
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_.]")
_ESCAPED: Final = re.compile(r"\$([0-9a-f]+)\$")


def symbol(name: str) -> str:
    """The symbol of a function of the program: characters beside letters, digits, `_` and `.` by their numbers."""
    return _PREFIX + _FOREIGN.sub(lambda found: f"${ord(found.group()):x}$", name)


def name_of(symbol: str) -> str:
    """The name of the function that has a symbol; the symbol itself where it is none of the program's."""
    if not symbol.startswith(_PREFIX):
        return symbol
    return _ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), symbol.removeprefix(_PREFIX))
