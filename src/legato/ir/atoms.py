"""Expressions that need no binding: atoms, which cost nothing to evaluate, and groups that fusion made."""

from __future__ import annotations

from typing import Final

from legato.ir.expr import Constant, Constructor, Expr, Function, GlobalVar, Shape, Tuple, Var
from legato.ir.op import Op

__all__ = ["is_atom", "is_operand", "is_primitive"]

_ATOMS: Final = (Var, GlobalVar, Constant, Op, Constructor, Shape)


def is_atom(node: Expr) -> bool:
    """True for expressions that cost nothing to evaluate."""
    return isinstance(node, _ATOMS)


def is_primitive(node: Expr) -> bool:
    """True for a group that fusion made: a function that is no value."""
    return isinstance(node, Function) and "Primitive" in node.attrs


def is_operand(node: Expr) -> bool:
    """True for what is written in place in A-normal form: atoms, groups, and tuples of these."""
    todo = [node]
    while todo:
        top = todo.pop()
        if isinstance(top, Tuple):
            todo += top.fields
        elif not is_atom(top) and not is_primitive(top):
            return False
    return True
