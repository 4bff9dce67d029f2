"""Operators as values, `get("nn.conv2d")` being the callee of a call; and what users say of them."""

from __future__ import annotations

from legato.ir import op as record
from legato.ops import table
from legato.relay._names import Named
from legato.relay._op_attrs import (
    register_alter_op_layout,
    register_convert_op_layout,
    register_infer_correct_layout,
    register_legalize,
    register_mixed_precision_conversion,
)
from legato.relay._op_table import get

__all__ = ["Op", "get", "register_alter_op_layout", "register_convert_op_layout", "register_infer_correct_layout",
           "register_legalize", "register_mixed_precision_conversion"]  # fmt: skip


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
