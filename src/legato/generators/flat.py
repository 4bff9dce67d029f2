"""Functions for generators, without what only says where calls come from."""

from __future__ import annotations

from dataclasses import replace

from legato.base.errors import CompileError
from legato.base.node import transform
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.transform._copy import Copy
from legato.transform._external import COMPILER, COMPOSITE
from legato.transform._types import split
from legato.transform.expand_calls import ExpandCalls
from legato.transform.infer_types import InferTypes
from legato.transform.pass_ import run
from legato.transform.to_graph import ToGraph

__all__ = ["flat_function", "without_composites"]


def without_composites(func: Function) -> Function:
    """`func` with the functions that patterns have cut out written where they are called."""
    body = transform(func.body, _written)
    return func if body is func.body else replace(func, body=body)


def _written(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Function) or not node.op.attrs.get(COMPOSITE):
        return None
    copy = Copy(*split(node.op.type_params, node.type_args))
    copy.vars.update(zip(node.op.params, node.args, strict=True))
    return copy.expr(node.op.body)


def flat_function(func: Function) -> Function:
    """`func` in graph form, of operators on its parameters and constants: what most generators want."""
    plain = without_composites(func).without_attr(COMPILER)
    made = run(Module.from_expr(plain), (InferTypes(), ExpandCalls(), ToGraph()))["main"]
    if not isinstance(made, Function):
        raise CompileError("a loop-level function is no function for a generator")
    return made
