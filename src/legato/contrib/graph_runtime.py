"""`graph_executor` under the name that it had before."""

from __future__ import annotations

from legato.contrib.graph_executor import GraphModule, create

__all__ = ["GraphModule", "create"]
