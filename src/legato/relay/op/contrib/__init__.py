"""Code generators of others, as Relay's scripts name them: tables of patterns, and partitioning."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from legato.relay.op.contrib import partition, register
    from legato.relay.op.contrib.partition import partition_for, partition_for_ccompiler, partition_for_onnxruntime
    from legato.relay.op.contrib.register import get_pattern_table, register_pattern_table

__all__ = ["get_pattern_table", "partition", "partition_for", "partition_for_ccompiler", "partition_for_onnxruntime",
           "register", "register_pattern_table"]  # fmt: skip

_ON_USE: Final = {
    "get_pattern_table": "register", "partition": "", "partition_for": "partition",
    "partition_for_ccompiler": "partition", "partition_for_onnxruntime": "partition", "register": "",
    "register_pattern_table": "register",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """On use: the package of operators does not need passes."""
    where = _ON_USE.get(name)
    if where is None:
        raise AttributeError(f"relay.op.contrib has no {name}")
    found = import_module(f"{__name__}.{where or name}")
    return getattr(found, name) if where else found
