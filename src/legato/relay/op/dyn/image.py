"""Operators on images whose shapes are tensors."""

from __future__ import annotations

from legato.relay.op._functions import namespace

__getattr__, __dir__ = namespace("dyn.image.", globals())
