"""Texts that use the prelude without defining it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from legato.ir.module import Module
from legato.ir.op import Op
from legato.prelude.library import library, link

__all__ = ["mentioned", "parse"]

_FUNCTION: Final = re.compile(r"^def (@\w+)", re.MULTILINE)
_TYPE: Final = re.compile(r"^type (\w+)(?:\[\w+\])? \{(.*)\}$", re.MULTILINE)
_CONSTRUCTOR: Final = re.compile(r"(?:^|,) *(\w+)")


def parse(
    text: str,
    *,
    source: str = "<text>",
    ops: Mapping[str, Op] | Sequence[Op],
    constants: Mapping[str, np.ndarray[Any, Any]] | None = None,
    metadata: Mapping[str, Sequence[Any]] | None = None,
) -> Module:
    """`ir.parser.parse`, and what the text names of the prelude without defining it is part of the module.

    The prelude is read only for a text that has a word of it.
    """
    from legato.ir import parser  # the frontends need no text

    if not mentioned(text):
        return parser.parse(text, source=source, ops=ops, constants=constants, metadata=metadata)
    prelude = library()
    found = parser.parse(text, source=source, ops=ops, constants=constants, metadata=metadata, module=prelude)
    return link(found, prelude)


def mentioned(text: str) -> bool:
    """True if a word of `text` is a function, data type or constructor of the prelude."""
    return _names().search(text) is not None


@cache
def _names() -> re.Pattern[str]:
    """A pattern of the names that the prelude defines: functions with their `@`, data types, constructors."""
    from importlib.resources import files  # with the parser

    text = files(__package__).joinpath("prelude.relay").read_text(encoding="utf-8")
    names = set(_FUNCTION.findall(text))
    for name, constructors in _TYPE.findall(text):
        names |= {name, *_CONSTRUCTOR.findall(constructors)}
    return re.compile(rf"(?<![\w%.@])(?:{'|'.join(sorted(names))})(?!\w)")
