"""Functions in continuation-passing style are called with a continuation that gives what it takes: direct style again.

    def @f[A](%x: int32, %k: fn (int32) -> A) -> A { … }
        =>
    def @f(%x: int32) -> int32 { @f_cps[int32](%x, fn (%y: int32) -> int32 { %y }) }

and @f_cps is what @f was. A function that gives functions stays: these go on to what only it knows.
"""

from __future__ import annotations

from legato.base.dataclass import dataclass
from legato.infer.infer import infer
from legato.ir.module import Module
from legato.transform._cps import gives_answer, made_direct
from legato.transform.pass_ import Pass

__all__ = ["UnCPS"]


@dataclass(frozen=True, slots=True)
class UnCPS(Pass):
    """Typed module → typed module whose functions give their results; the same where none takes a continuation."""

    name = "un-cps"

    def __call__(self, mod: Module) -> Module:
        new = made_direct(mod, [gv for gv, f in mod.graph_functions() if gives_answer(f)])
        return mod if new is mod else infer(new)
