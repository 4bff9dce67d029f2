"""`debug_executor` under the name that it had before."""

from __future__ import annotations

from legato.contrib.debugger.debug_executor import GraphModuleDebug, create

__all__ = ["GraphModuleDebug", "create"]
