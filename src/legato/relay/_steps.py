"""Passes of the compiler (`legato.transform`) as passes for users."""

from __future__ import annotations

from collections.abc import Iterable

from legato.relay._passes import ModulePass, Pass, PassContext, PassInfo
from legato.relay.module import IRModule
from legato.transform.infer_types import InferTypes
from legato.transform.pass_ import Pass as Step

__all__ = ["of_steps"]


def of_steps(name: str, opt_level: int, steps: Iterable[Step]) -> Pass:
    """A pass that runs passes of the compiler, on a module with types."""
    listed = (InferTypes(), *steps)

    def run(mod: IRModule, context: PassContext) -> IRModule:
        module = mod.module
        for step in listed:
            module = step(module)
        return IRModule(module)

    return ModulePass(run, PassInfo(opt_level, name))
