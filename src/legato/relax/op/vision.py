"""Operators of boxes."""

from __future__ import annotations

from legato.relax.op import _functions

__getattr__, __dir__ = _functions.namespace("vision.", globals())
