"""Rules for the calls of an operator, for a time: see `legato.relay._op_rules`."""

from __future__ import annotations

from legato.relay._op_rules import TempOpAttr

__all__ = ["TempOpAttr"]
