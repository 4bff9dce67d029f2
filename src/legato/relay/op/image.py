"""Operators on images."""

from __future__ import annotations

from legato.relay.op._functions import namespace

__getattr__, __dir__ = namespace("image.", globals())
