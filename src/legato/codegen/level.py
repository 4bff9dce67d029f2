"""What of code generation is known without LLVM: which library does it, and the level that a module wants.

The level is a comment in the module's first line: it travels with the text.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from legato.base.errors import InternalError
from legato.base.sources import is_as_it_was

__all__ = ["level_line", "level_of", "toolchain"]

_PREFIX = "; codegen level "
_DEFAULT = 2


def level_line(level: int) -> str:
    """The line that asks for `level` (0 to 3)."""
    return f"{_PREFIX}{level}"


def level_of(ir_text: str) -> int:
    """The level that the text asks for; 2 where it does not say."""
    if not ir_text.startswith(_PREFIX):
        return _DEFAULT
    return int(ir_text[len(_PREFIX) : len(_PREFIX) + 1])


@cache
def _library() -> tuple[Path, ...]:
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        raise InternalError("llvmlite is not installed")
    return tuple(sorted((Path(spec.origin).parent / "binding").glob("*llvmlite*")))


def toolchain() -> str | None:
    """A text that tells the installed LLVM from others: the size and the time of its library, which is not loaded; None
    where it was replaced while this process runs, which may have loaded another one."""
    try:
        if not all(map(is_as_it_was, _library())):
            return None
        found = [(path.name, path.stat()) for path in _library()]
    except OSError:
        return None
    return " ".join(f"{name} {status.st_size} {status.st_mtime_ns}" for name, status in found)
