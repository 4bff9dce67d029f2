"""Scalar expressions as JSON: what a kernel cache keeps of shapes and index maps.

    data = integer                      a literal of dtype index
         | [node, …]                    nodes with operands before users, the last one being the expression itself
    node = ["const", value, dtype] | ["var", number] | [op, a, b] | ["select", cond, a, b]
         | ["load", number, [index, …]] | ["cast", a, dtype] | ["call", name, [arg, …], dtype]

Operands are places in the list, so shared parts stay shared, and nothing recurses. Variables and buffers are numbered
by whoever writes, and looked up by whoever reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, const
from legato.arith.substitute import nodes
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.tir.buffer import Buffer
from legato.tir.expr import Call, Cast, Load

__all__ = ["from_data", "to_data"]

_OPS = {op.value: op for op in Op}


def to_data(e: Expr, number: Callable[[Any], int]) -> Any:
    """`e` as JSON; `number` gives the number of each variable and buffer."""
    if isinstance(e, Const) and e.dtype == dt.index:
        return int(e.value)
    places: dict[Expr, int] = {}
    found: list[list[Any]] = []
    for node in nodes(e):
        places[node] = len(found)
        found.append(_node(node, places, number))
    return found


def _node(node: Expr, places: dict[Expr, int], number: Callable[[Any], int]) -> list[Any]:
    match node:
        case Const():
            return ["const", node.value, node.dtype.name]
        case Var():
            return ["var", number(node)]
        case Binary():
            return [node.op.value, places[node.a], places[node.b]]
        case Select():
            return ["select", places[node.cond], places[node.a], places[node.b]]
        case Load():
            return ["load", number(node.buffer), [places[i] for i in node.indices]]
        case Cast():
            return ["cast", places[node.a], node.dtype.name]
        case Call():
            return ["call", node.name, [places[a] for a in node.args], node.dtype.name]
        case _:
            raise InternalError(f"an expression to be kept holds {node!r}")


def from_data(data: Any, variables: Sequence[Expr], buffers: Sequence[Buffer] = ()) -> Expr:
    """The expression that `to_data` wrote as `data`, over these variables and buffers.

    KeyError, IndexError, TypeError or ValueError for other data.
    """
    if isinstance(data, int):
        return const(data)
    found: list[Expr] = []
    for node in data:
        found.append(_expr(node, found, variables, buffers))
    return found[-1]


def _expr(node: list[Any], found: list[Expr], variables: Sequence[Expr], buffers: Sequence[Buffer]) -> Expr:
    match node:
        case ["const", value, dtype]:
            return Const(value, _dtype(dtype))
        case ["var", number]:
            return variables[int(number)]
        case ["select", cond, a, b]:
            return Select(found[cond], found[a], found[b])
        case ["load", number, indices]:
            return Load(buffers[number], tuple(found[i] for i in indices))
        case ["cast", a, dtype]:
            return Cast(found[a], _dtype(dtype))
        case ["call", name, args, dtype]:
            return Call(name, tuple(found[a] for a in args), _dtype(dtype))
        case [op, a, b]:
            return Binary(_OPS[op], found[a], found[b])
        case _:
            raise ValueError(f"no expression: {node!r}")


def _dtype(name: str) -> DType:
    return dt.index if name == dt.index.name else dt.dtype(name)
