"""When two loop programs are the same up to names."""

from __future__ import annotations

import hashlib
from typing import Any

from legato.tir.buffer import Buffer
from legato.tir.printer import show_numbered
from legato.tir.stmt import Func

__all__ = ["alpha_equal", "program_key", "structural_hash"]


def alpha_equal(a: Func, b: Func) -> bool:
    """True if the functions differ at most in the names of variables and buffers, spans, and how blocks are nested.

    Everything else counts: the function's name, loop kinds, layouts, bounds of variables, the order of operands.
    """
    return a is b or (a.name == b.name and program_key(a) == program_key(b))


def structural_hash(func: Func) -> str:
    """A digest that alpha-equal functions share: the same in every process."""
    return hashlib.sha256(f"{func.name}\n{program_key(func)}".encode()).hexdigest()


def program_key(func: Func) -> str:
    """A text that two functions share if and only if they are alpha-equal but for their own names."""
    body = Func("_", func.params, func.body, func.kind, func.constants)
    return show_numbered(body, _Numbers())


class _Numbers:
    """Names by order of appearance: v0, v1 for variables, b0, b1 for buffers."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}

    def __call__(self, named: Any) -> str:
        found = self._names.get(named)
        if found is None:
            kind = "b" if isinstance(named, Buffer) else "v"
            found = self._names[named] = f"{kind}{len(self._names)}"
        return found
