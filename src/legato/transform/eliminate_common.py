"""Common subexpression elimination: equal calls of the same operands become one node,
unless they do more than give a value."""

from __future__ import annotations

from dataclasses import fields, replace
from math import copysign
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.base.strings import bits
from legato.ir.contents import called_operators
from legato.ir.devices import PLACING
from legato.ir.effects import Effects
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.transform.pass_ import FunctionPass

__all__ = ["EliminateCommon"]

SMALL = 1 << 10  # constants up to this size are compared by value


@dataclass(frozen=True, slots=True)
class EliminateCommon(FunctionPass):
    """Module → module in which an operator is applied to the same operands once."""

    name = "eliminate-common"

    def function(self, func: Function, mod: Module) -> Function:
        known: dict[tuple[object, ...], Expr] = {}
        kept: list[Expr] = []  # ids are keys, so the nodes they name must live
        effects = Effects(func, mod)
        anywhere = _Anywhere(func)

        def step(node: Expr) -> Expr | None:
            key = None if effects.own(node) else _key(node)
            if key is None or anywhere.has(node):
                return None
            kept.append(node)
            return known.setdefault(key, node)

        body = transform(func.body, step)
        return func if body is func.body else replace(func, body=body)


class _Anywhere:
    """What reads nothing that lies somewhere, in a function with tensors on several devices: each device that wants it
    computes it."""

    def __init__(self, func: Function) -> None:
        self._found: set[int] | None = None if called_operators(func).isdisjoint(PLACING) else set()

    def has(self, node: Expr) -> bool:
        """Whether `node`, whose operands have been asked about, is such a node; constants aside."""
        if self._found is None or isinstance(node, Constant):
            return False
        operands = node.args if isinstance(node, Call) else node.children()
        is_anywhere = all(isinstance(a, Constant) or id(a) in self._found for a in operands)
        if is_anywhere:
            self._found.add(id(node))
        return is_anywhere


def _ident(e: Expr) -> object:
    return e if isinstance(e, Var) else id(e)


def _key(node: Expr) -> tuple[object, ...] | None:
    """What makes two nodes the same computation; None for nodes that are never merged.

    The type is part of it: two calls whose extents depend on data have dims of their own, which other types mention.
    """
    match node:
        case Call(op=Op() as op):
            return ("call", id(op), node.attrs, _signs(node.attrs), node.ty, *map(_ident, node.args))
        case Tuple():
            return ("tuple", *map(_ident, node.fields))
        case TupleGetItem():
            return ("get", node.index, _ident(node.value))
        case Constant() if node.data.nbytes <= SMALL:
            return ("constant", node.data.dtype.str, node.data.dtype.name, node.data.shape, bits(node.data))
        case _:
            return None


def _signs(attrs: Any) -> tuple[float, ...]:
    """The signs of the zeros among attributes: 0.0 equals -0.0, but is another number."""
    values = [] if attrs is None else [getattr(attrs, f.name) for f in fields(attrs)]
    flat = [v for value in values for v in (value if isinstance(value, tuple) else (value,))]
    return tuple(copysign(1.0, v) for v in flat if isinstance(v, float) and v == 0)
