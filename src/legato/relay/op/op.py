"""Operators as values: `get("nn.conv2d")` is the callee of a call."""

from __future__ import annotations

from difflib import get_close_matches

from legato.base.errors import TypeCheckError
from legato.ir import op as record
from legato.ops import table
from legato.relay._names import Named

__all__ = ["Op", "get"]


def get(op_name: str) -> record.Op:
    """The operator called `op_name`; TypeCheckError if there is none."""
    try:
        return table()[op_name]
    except KeyError:
        near = get_close_matches(op_name, list(table()), 3)
        hint = f"did you mean {', '.join(near)}?" if near else None
        raise TypeCheckError(f"no operator is called {op_name!r}", hint=hint) from None


class Op(record.Op, metaclass=Named):
    """`Op.get(name)`; operators are records of the compiler (`legato.ir.op.Op`), made in files and not registered."""

    @staticmethod
    def build(name: str) -> record.Op:
        return get(name)

    @staticmethod
    def get(op_name: str) -> record.Op:
        """The operator called `op_name`; TypeCheckError if there is none."""
        return get(op_name)

    @staticmethod
    def list_op_names() -> list[str]:
        """The names of all operators."""
        return list(table())
