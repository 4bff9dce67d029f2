"""Passes that give functions other parameters."""

from __future__ import annotations

from collections.abc import Callable

from legato.base.errors import CompileError
from legato.ir.expr import Function
from legato.relay._passes import FunctionPass, Pass, PassContext, PassInfo
from legato.relay.module import IRModule
from legato.transform._call_graph import callees, values

__all__ = ["of_parameters"]


def of_parameters(name: str, change: Callable[[Function], Function]) -> Pass:
    """A pass over functions that callers outside give arrays. CompileError where one that changes is called in the
    program, or is a value there: these calls have nothing to give for the new parameters."""

    def run(func: Function, mod: IRModule, context: PassContext) -> Function:
        new = change(func)
        if new is not func:
            _require_outermost(func, mod, name)
        return new

    return FunctionPass(run, PassInfo(4, name, ("DeadCodeElimination",)))


def _require_outermost(func: Function, mod: IRModule, name: str) -> None:
    own = [gv for gv, f in mod.functions.items() if f is func]
    calls = callees(mod.module)
    for gv in own:
        by = [f"@{caller.name}" for caller, called in calls.items() if gv in called]
        if by or gv in values(mod.module):
            what = f"is called by {', '.join(by)}" if by else "is a value in the program"
            raise CompileError(
                f"{name} gives @{gv.name} other parameters, and it {what}",
                hint="write it in place of its calls: the attribute Inline, then Inline() and ToGraphNormalForm()",
            )
