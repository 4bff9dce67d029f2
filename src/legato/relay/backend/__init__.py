"""What Relay's scripts import from `relay.backend`: options of `build`, what it gives, and the values of executors."""

from __future__ import annotations

from legato.relay._executors.options import Executor, Runtime
from legato.relay.backend import executor_factory, interpreter, vm

__all__ = ["Executor", "Runtime", "executor_factory", "interpreter", "vm"]
