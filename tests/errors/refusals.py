"""The places of the sources that refuse something as unsupported, and what they say would work instead."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import legato

SOURCE = Path(legato.__file__).parent


@dataclass(frozen=True)
class Refusal:
    """A place that makes an UnsupportedError; `hint`: whether it gives one."""

    file: str
    line: int
    text: str
    hint: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


@cache
def refusals() -> tuple[Refusal, ...]:
    """All of them, of UnsupportedError and of the classes that derive from it."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    names = {"UnsupportedError"}
    while more := {m[1] for text in texts.values() for m in _derived(names).finditer(text)} - names:
        names |= more
    calls = re.compile(rf"\b({'|'.join(names)})\(")
    return tuple(r for path, text in texts.items() if calls.search(text) for r in _of(path, ast.parse(text), names))


def _derived(names: set[str]) -> re.Pattern[str]:
    return re.compile(rf"^class (\w+)\(.*\b(?:{'|'.join(names)})\b.*\):", re.MULTILINE)


def _of(path: Path, tree: ast.AST, names: set[str]) -> Iterator[Refusal]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            hints = [k.value for k in node.keywords if k.arg == "hint"]
            given = bool(hints) and not (isinstance(hints[0], ast.Constant) and not hints[0].value)
            yield Refusal(str(path.relative_to(SOURCE)), node.lineno, ast.unparse(node)[:160], given)
