"""Passes, one per file: functions from module to module. `table` finds them by looking."""

from __future__ import annotations

from legato.transform._table import table

__all__ = ["table"]
