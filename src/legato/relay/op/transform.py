"""Operators that move, select and reshape; as elsewhere, every operator of relay itself.

The split is kept for programs that import from it.
"""

from __future__ import annotations

from legato.relay.op._functions import namespace
from legato.relay.op.layout import layout_transform

__all__ = ["layout_transform"]

__getattr__, __dir__ = namespace("", globals())
