"""Calls of functions that make tensor expressions: as tensor programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from legato.ir.expr import Call
from legato.te.calls import Programs
from legato.te.traced import traced

__all__ = ["te_call"]


def te_call(
    programs: Programs, function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], name: str
) -> Call:
    """The call of the tensor program of what `function` gives for tensors (`te.traced`), called like `name`."""
    return programs.call(name, *traced(function, args, keywords, name))
