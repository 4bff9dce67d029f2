"""Expressions of operator calls as stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.arith.expr import const
from legato.base.errors import InternalError, UnsupportedError
from legato.base.node import post_order
from legato.ir import expr as ir
from legato.ir.let import chain
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.te.definition import defined
from legato.te.tensor import Tensor, compute

__all__ = ["Value", "computed"]

Value = Tensor | tuple["Value", ...]


def computed(body: ir.Expr, by_var: Mapping[ir.Var, Value]) -> Value:
    """What `body` computes from the values of its variables: calls of operators that have a compute, scalar constants,
    and tuples, behind a chain of lets. It is typed; each node becomes stages once."""
    values: dict[int, Any] = {}
    known = dict(by_var)
    bindings, result = chain(body)
    for var, value in (*bindings, (None, result)):
        for node in post_order([value]):
            if id(node) not in values:
                values[id(node)] = _value(node, values, known)
        if var is not None:
            known[var] = values[id(value)]
    found: Value = values[id(result)]
    return found


def _value(node: ir.Expr, values: dict[int, Any], by_var: Mapping[ir.Var, Value]) -> Any:
    match node:
        case ir.Var():
            return by_var[node]
        case ir.Constant():
            return _scalar(node)
        case Op():
            return node
        case ir.Tuple():
            return tuple(values[id(f)] for f in node.fields)
        case ir.TupleGetItem():
            return values[id(node.value)][node.index]
        case ir.Call() if isinstance(node.op, Op) and node.op.compute is not None:
            return defined(node.op, [values[id(a)] for a in node.args], node.attrs, node.ty, node.span)
        case _:
            raise InternalError(f"a primitive function holds {node!r}")


def _scalar(node: ir.Constant) -> Tensor:
    ty = node.ty
    if not isinstance(ty, TensorType) or ty.rank:
        raise InternalError(f"a primitive function holds a constant of type {node.ty}: only scalars stay inside")
    if ty.dtype.is_string:
        hint = "give it as an argument: which number it is, the program tells"
        raise UnsupportedError("a primitive function holds a constant string", span=node.span, hint=hint)
    return compute((), lambda: const(node.data.item(), ty.dtype), "c")
