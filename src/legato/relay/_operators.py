"""Operators by name."""

from __future__ import annotations

from difflib import get_close_matches

from legato.base.errors import TypeCheckError
from legato.ir.op import Op
from legato.ops import table

__all__ = ["get"]


def get(op_name: str) -> Op:
    """The operator called `op_name`; TypeCheckError if there is none."""
    try:
        return table()[op_name]
    except KeyError:
        near = get_close_matches(op_name, list(table()), 3)
        hint = f"did you mean {', '.join(near)}?" if near else None
        raise TypeCheckError(f"no operator is called {op_name!r}", hint=hint) from None
