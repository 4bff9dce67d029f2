"""What Relay's scripts import from `relay.backend`: options of `build`, what it gives, and the values of executors."""

from __future__ import annotations

from typing import Any, Final

from legato.relay._executors.options import Executor, Runtime
from legato.relay.backend import executor_factory, interpreter, vm

__all__ = ["Executor", "Runtime", "executor_factory", "interpreter", "vm"]

_CODE: Final = "kernels and host functions are made by legato.lower and legato.codegen"
_NOT_HERE: Final = {
    "_backend": _CODE, "aot": _CODE, "graph_executor_codegen": _CODE, "graph_runtime_codegen": _CODE,
    "te_compiler": _CODE,
    "name_transforms": "no C names are made of a module's",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    why = _NOT_HERE.get(name)
    raise AttributeError(f"there is no relay.backend.{name}" + (f": {why}" if why else ""))
