"""What `relay.build` gives, under the path that it had inside the original."""

from __future__ import annotations

from legato.relay._executors.executor_factory import ExecutorFactoryModule, GraphExecutorFactoryModule

__all__ = ["ExecutorFactoryModule", "GraphExecutorFactoryModule"]
