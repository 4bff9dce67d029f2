"""Functions that another code generator compiles: they say which by the attribute Compiler."""

from __future__ import annotations

from typing import Final, TypeGuard

from legato.ir.expr import Expr, Function
from legato.ir.module import GlobalFunc

__all__ = ["COMPILER", "COMPOSITE", "ONLY_THEIRS", "SYMBOL", "compiler_of", "is_closed", "is_external", "is_own"]

COMPILER: Final = "Compiler"
COMPOSITE: Final = "Composite"
SYMBOL: Final = "global_symbol"
ONLY_THEIRS: Final = (COMPILER, SYMBOL, "Primitive", "Inline")  # what functions have because they are for others
_CLOSED: Final = (COMPILER, COMPOSITE, "PartitionedFromPattern", "Primitive")


def compiler_of(func: Function) -> str | None:
    """Whose a function is; None: it is compiled with the rest ("default" says so, too)."""
    found = func.attrs.get(COMPILER)
    return None if found in (None, "", "default") else str(found)


def is_external(func: object) -> TypeGuard[Function]:
    """Whether `func` is a function for another code generator."""
    return isinstance(func, Function) and compiler_of(func) is not None


def is_own(func: GlobalFunc) -> TypeGuard[Function]:
    """Whether `func` is a function of the language that is compiled with the rest."""
    return isinstance(func, Function) and compiler_of(func) is None


def is_closed(node: Expr) -> bool:
    """Whether a node is a function whose inside belongs together: a group, what a pattern cut out, a generator's."""
    return isinstance(node, Function) and any(node.attrs.get(name) for name in _CLOSED)
