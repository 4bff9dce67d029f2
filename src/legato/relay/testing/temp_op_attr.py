"""Rules for the calls of an operator, for a time: see `legato.relay._op_attrs`."""

from __future__ import annotations

from legato.relay._op_attrs import TempOpAttr

__all__ = ["TempOpAttr"]
