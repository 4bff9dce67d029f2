"""Constructors and functions of the module that are values are written out as functions (eta expansion).

map(@f, %xs)      =>      map(fn (%a0: float32) -> float32 { @f(%a0) }, %xs)
"""

from __future__ import annotations

from legato.base.dataclass import dataclass
from legato.ir.expr import Constructor, Expr, Function, GlobalVar
from legato.ir.module import Module
from legato.transform._values import written_out
from legato.transform.pass_ import FunctionPass

__all__ = ["EtaExpand"]


@dataclass(frozen=True, slots=True)
class EtaExpand(FunctionPass):
    """Typed module → typed module whose constructors, functions or both are only called, tensor programs aside."""

    name = "eta-expand"
    constructors: bool = True
    functions: bool = True

    def function(self, func: Function, mod: Module) -> Function:
        return written_out(func, mod, self._is_expanded)

    def _is_expanded(self, value: Expr) -> bool:
        if isinstance(value, Constructor):
            return self.constructors
        return isinstance(value, GlobalVar) and self.functions
