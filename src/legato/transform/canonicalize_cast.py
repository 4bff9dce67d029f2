"""Casts to wider types are computed by each elementwise operator that reads them, so that groups pass narrow data on.

%0 = cast(%x, dtype="int32");                    %0 = cast(%x, dtype="int32");
(exp(%0), negative(%0))                =>        %1 = cast(%x, dtype="int32");
                                                 (exp(%0), negative(%1))
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ir.op import Fusion, Op
from legato.ir.scope import operands, post_order
from legato.ir.types import TensorType
from legato.ops.select import cast
from legato.transform._values import with_operands
from legato.transform.pass_ import FunctionPass

__all__ = ["CanonicalizeCast"]


@dataclass(frozen=True, slots=True)
class CanonicalizeCast(FunctionPass):
    """Typed module → typed module."""

    name = "canonicalize-cast"

    def function(self, func: Function, mod: Module) -> Function:
        order = list(post_order(func.body))
        users = Counter(n for node in order for n in set(map(id, operands(node))))
        users[id(func.body)] += 1
        new: dict[int, Expr] = {}
        for node in order:
            kids = {id(kid): new[id(kid)] for kid in operands(node)}
            for n, kid in kids.items() if _is_elementwise(node) else ():
                if users[n] > 1 and _is_widening(kid):
                    users[n] -= 1
                    kids[n] = replace(kid)
            new[id(node)] = with_operands(node, [kids[id(kid)] for kid in operands(node)])
        body = new[id(func.body)]
        return func if body is func.body else replace(func, body=body)


def _is_widening(node: Expr) -> bool:
    if not isinstance(node, Call) or node.op is not cast:
        return False
    before, after = node.args[0].ty, node.ty
    return isinstance(before, TensorType) and isinstance(after, TensorType) and after.dtype.bits > before.dtype.bits


def _is_elementwise(node: Expr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.fuses(node.attrs) <= Fusion.BROADCAST
