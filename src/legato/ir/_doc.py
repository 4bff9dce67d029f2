"""Text with nested blocks, laid out without recursion."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Final

from legato.base.dataclass import dataclass

__all__ = ["Block", "Pieces", "layout"]

_INDENT: Final = "  "
_DEEPEST: Final = 40  # deeper blocks are indented no further, so that the text stays linear in the program


@dataclass(eq=False, slots=True)
class Block:
    """Lines in braces. With `optional_braces` a block of one line without blocks of its own is written without them."""

    lines: list[Pieces] = field(default_factory=list)
    optional_braces: bool = False


Pieces = list[str | Block]


def layout(pieces: Pieces) -> str:
    """The text of strings and blocks in order."""
    out: list[str] = []
    todo: list[tuple[Any, int]] = [(piece, 0) for piece in reversed(pieces)]
    while todo:
        item, level = todo.pop()
        if isinstance(item, str):
            out.append(item)
            continue
        if item.optional_braces and len(item.lines) == 1:
            todo += [(piece, level) for piece in reversed(item.lines[0])]
            continue
        todo += reversed(_braced(item, level))
    return "".join(out)


def _braced(block: Block, level: int) -> list[tuple[Any, int]]:
    inner = "\n" + _INDENT * min(level + 1, _DEEPEST)
    items: list[tuple[Any, int]] = [("{", level)]
    for line in block.lines:
        items.append((inner, level))
        items += [(piece, level + 1) for piece in line]
    items.append(("\n" + _INDENT * min(level, _DEEPEST) + "}", level))
    return items
