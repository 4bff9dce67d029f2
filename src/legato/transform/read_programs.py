"""Tensor programs that somebody wrote become operators where they are tensor expressions.

    let %y = call_tir(@linear, (%x, %w, %b))
    =>  let %s = call_te((%x, %w), program="kernel @linear(…) {…}");      a sum of products, an operator of its own
        let %y = call_te((%s, %b), program="kernel @linear(…) {…}")       what is added

Each part of a program (`te.parts`) is fused, laid out and scheduled as any operator. Others are compiled as written.
"""

from __future__ import annotations

from legato.base.dataclass import dataclass
from legato.ir.module import Module
from legato.tir.stmt import Func
from legato.transform.pass_ import Pass

__all__ = ["ReadPrograms"]


@dataclass(frozen=True, slots=True)
class ReadPrograms(Pass):
    """A-normal form → A-normal form without calls of tensor programs that are tensor expressions.

    Their sums are formed in the order of schedules.
    """

    name = "read-programs"
    rounds = True

    def __call__(self, mod: Module) -> Module:
        if not any(isinstance(f, Func) for f in mod.functions.values()):
            return mod
        from legato.transform._programs import with_read_programs  # on use: models of operators start without it

        return with_read_programs(mod)
