"""Exponentials and their kin become functions of fewer operations, with stated errors.

exp, tanh, erf, nn.softmax      =>      fast_exp, fast_tanh, fast_erf, nn.fast_softmax
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.ops.fast import fast_erf, fast_exp, fast_tanh
from legato.ops.softmax import fast_softmax, softmax
from legato.ops.unary import erf, exp, tanh
from legato.transform.pass_ import FunctionPass

__all__ = ["FastMath"]

_FAST: Final[Mapping[Op, Op]] = {exp: fast_exp, tanh: fast_tanh, erf: fast_erf, softmax: fast_softmax}


@dataclass(frozen=True, slots=True)
class FastMath(FunctionPass):
    """Typed module → typed module. Functions of float64 stay: their results have more digits than the fast ones'."""

    name = "fast-math"
    rounds = True

    def function(self, func: Function, mod: Module) -> Function:
        body = transform(func.body, _fast)
        return func if body is func.body else replace(func, body=body)


def _fast(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op) or not isinstance(node.ty, TensorType):
        return None
    op = _FAST.get(node.op)
    return None if op is None or node.ty.dtype.bits > 32 else replace(node, op=op)
