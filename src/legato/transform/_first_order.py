"""First-order form: what lowering understands of functions and matches.

- a function is one of the module, and has no type variables (it may have dims);
- no function is a value: what is called is an operator, a constructor, a function of the module or a primitive one;
- a match looks at one variable by constructors of variables and wildcards, see `flatten_match.is_flat`.
"""

from __future__ import annotations

from collections.abc import Iterator

from legato.ir.atoms import is_primitive
from legato.ir.call_tir import CALL_TIR
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Constructor, Expr, Function, GlobalVar, Match
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import operands
from legato.ir.types import TypeVar
from legato.transform._types import has_function
from legato.transform.flatten_match import is_flat

__all__ = ["first_order"]


def first_order(mod: Module) -> Iterator[tuple[GlobalVar, Expr, str]]:
    """What of `mod` is not in first-order form: the function that it is in, the node, and what it is, in words."""
    for gv, func in mod.graph_functions():
        for variable in func.type_params:
            if isinstance(variable, TypeVar):
                yield gv, func, f"type variable {variable.name}"
        for param in func.params:
            if has_function(param.ty):
                yield gv, param, f"parameter %{param.name}, which has functions: {param.ty}"
        if has_function(func.body.ty):
            yield gv, func, f"a result that has functions: {func.body.ty}"
        for node in body_nodes(func):
            what = _fault(node)
            if what is not None:
                yield gv, node, what


def _fault(node: Expr) -> str | None:
    if isinstance(node, Function) and not is_primitive(node):
        return "a function as a value"
    if isinstance(node, Match) and not is_flat(node):
        return "a match that takes apart more than one variable"
    values = operands(node)
    if isinstance(node, Call):
        if not isinstance(node.op, Op | Constructor | GlobalVar) and not is_primitive(node.op):
            return "a call of a function that is a value"
        values = () if node.op is CALL_TIR else node.args
    for value in values:
        if isinstance(value, Op | Constructor | GlobalVar):
            return f"{value.name} as a value"
    return None
