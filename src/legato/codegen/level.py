"""The level of code generation that a module wants, as a comment in its first line: it travels with the text."""

from __future__ import annotations

__all__ = ["level_line", "level_of"]

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
