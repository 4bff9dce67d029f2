"""Operators that move, select and reshape; as elsewhere, every operator of relay itself.

The split is kept for programs that import from it.
"""

from __future__ import annotations

from legato.relay.op._functions import namespace
from legato.relay.op.like import (
    broadcast_to_like,
    cast_like,
    collapse_sum_like,
    reshape_like,
    slice_like,
)
from legato.relay.op.made import matrix_set_diag, reverse_reshape, strided_set, trilu

__all__ = [
    "broadcast_to_like",
    "cast_like",
    "collapse_sum_like",
    "matrix_set_diag",
    "reshape_like",
    "reverse_reshape",
    "slice_like",
    "strided_set",
    "trilu",
]

__getattr__, __dir__ = namespace("", globals())
