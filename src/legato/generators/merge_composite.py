"""What patterns match becomes functions that a code generator takes as a whole.

nn.relu(nn.dense(%x, %w))
    =>
fn (%p0: …, %p1: …, Composite="c.dense_relu") { nn.relu(nn.dense(%p0, %p1)) }(%x, %w)
"""

from __future__ import annotations

from typing import Any

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.generators.generator import Check, Composite
from legato.ir.expr import Expr, Function
from legato.ir.module import Module
from legato.patterns import Pattern, partition
from legato.transform._external import COMPOSITE
from legato.transform.pass_ import FunctionPass

__all__ = ["MergeComposite"]


@dataclass(frozen=True, slots=True)
class MergeComposite(FunctionPass):
    """Module → module with a function for what the patterns of `table` match: entries (name, pattern) or (name,
    pattern, check), of which the first counts."""

    name = "merge-composite"
    table: tuple[Composite, ...] = ()

    def function(self, func: Function, mod: Module) -> Function:
        for entry in self.table:
            name, pattern, check = _entry(entry)
            made = partition(pattern, func, {COMPOSITE: name}, check, mod)
            assert isinstance(made, Function)
            func = made
        return func


def _entry(entry: Any) -> tuple[str, Pattern, Check]:
    """An entry of a table, checked."""
    if not isinstance(entry, tuple) or len(entry) not in (2, 3):
        raise CompileError(f"no entry of a table of patterns: {entry!r}", hint='("NAME.what", pattern, check)')
    name, pattern, check = entry if len(entry) == 3 else (*entry, _any)
    if not isinstance(name, str) or "." not in name or not isinstance(pattern, Pattern):
        raise CompileError(f"no entry of a table of patterns: {entry!r}", hint='a name "NAME.what", and a pattern')
    return name, pattern, check


def _any(e: Expr) -> bool:
    return True
