"""A pass with Relay's interface as one of the compiler's."""

from __future__ import annotations

from typing import Any, ClassVar

from legato.ir.module import Module
from legato.relay.module import IRModule
from legato.transform.pass_ import Pass

__all__ = ["AsStep"]


class AsStep(Pass):
    """What `made`, a pass from IRModule to IRModule, does to a module; it is called what `made` is called."""

    name: ClassVar[str] = "step"

    def __init__(self, made: Any) -> None:
        self._made = made
        self.name = made.name  # type: ignore[misc]  # what an observer calls it

    def __call__(self, mod: Module) -> Module:
        found: Module = self._made(IRModule(mod)).module
        return found
