"""What patterns match becomes functions that a code generator takes as a whole.

nn.relu(nn.dense(%x, %w))
    =>
fn (%p0: …, %p1: …, Composite="c.dense_relu") { nn.relu(nn.dense(%p0, %p1)) }(%x, %w)
"""

from __future__ import annotations

from legato.base.dataclass import dataclass
from legato.base.kinds import require_sequence
from legato.generators.generator import Composite, checked
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.patterns import partition
from legato.transform._external import COMPOSITE
from legato.transform.pass_ import FunctionPass

__all__ = ["MergeComposite"]


@dataclass(frozen=True, slots=True)
class MergeComposite(FunctionPass):
    """Module → module with a function for what the patterns of `table` match: entries (name, pattern) or (name,
    pattern, check), of which the first counts."""

    name = "merge-composite"
    table: tuple[Composite, ...] = ()

    def check_options(self) -> None:
        require_sequence(self.table, "the table of patterns", 'entries ("NAME.what", pattern, check)')
        for entry in self.table:
            checked(entry)

    def function(self, func: Function, mod: Module) -> Function:
        for name, pattern, check in map(checked, self.table):
            made = partition(pattern, func, {COMPOSITE: name}, check, mod)
            assert isinstance(made, Function)
            func = made
        return func
