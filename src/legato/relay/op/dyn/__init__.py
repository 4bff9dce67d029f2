"""Operators whose shapes are tensors: `relay.op.dyn.reshape(x, s)`. `relay.reshape(x, s)` is the same call."""

from __future__ import annotations

from legato.relay.op import _functions
from legato.relay.op.dyn import image, nn

__all__ = ["image", "nn"]

__getattr__, __dir__ = _functions.namespace("dyn.", globals())
