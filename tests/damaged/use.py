"""What is done with a damaged model: it is compiled, and what is cheap to call is called."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import legato
from legato.runtime.executable import Executable
from legato.runtime.fill import feeds

__all__ = ["called", "compiled_and_called"]

_CHEAP: Final = 64 << 20  # bytes of memory of a call


def compiled_and_called(path: Path) -> bool:
    """True; LegatoError where the model is refused, or its call."""
    called(legato.compile(path, threads=1))
    return True


def called(exe: Executable) -> None:
    """Calls a program on random inputs. One that recurses may do so for ever, and one may be as large as its dims."""
    functions = exe.program.functions
    if any(info.is_recursive for info in functions.values()) or not str(exe.peak_memory).isdigit():
        return
    if int(str(exe.peak_memory)) <= _CHEAP:
        exe.run(feeds(functions[exe.function], None, "random"))
