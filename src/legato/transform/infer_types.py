"""Type inference as a pass."""

from __future__ import annotations

from legato.base.dataclass import dataclass
from legato.infer.infer import infer
from legato.ir.module import Module
from legato.transform.pass_ import Pass

__all__ = ["InferTypes"]


@dataclass(frozen=True, slots=True)
class InferTypes(Pass):
    """Module → the same module, typed."""

    name = "infer-types"

    def __call__(self, mod: Module) -> Module:
        return infer(mod)
