"""`relay.vm` under the path that it had inside the original."""

from __future__ import annotations

from legato.relay.vm import VMCompiler, VMExecutable, compile

__all__ = ["VMCompiler", "VMExecutable", "compile"]
