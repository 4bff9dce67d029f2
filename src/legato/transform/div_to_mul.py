"""Divisions of floats by constants become multiplications by their reciprocals.

divide(%x, 3f)      =>      multiply(%x, 0.333333f)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, Function, constant
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.ops.binary import divide, multiply
from legato.runtime.floats import float_environment
from legato.transform._normal import is_normal
from legato.transform.pass_ import FunctionPass

__all__ = ["DivToMul"]


@dataclass(frozen=True, slots=True)
class DivToMul(FunctionPass):
    """Typed module → typed module. A divisor stays where a reciprocal of its elements would not be finite and normal.

    Reciprocals are rounded, so results may differ in their last bits.
    """

    name = "div-to-mul"
    rounds = True

    def function(self, func: Function, mod: Module) -> Function:
        with float_environment():
            body = transform(func.body, _multiplied)
        return func if body is func.body else replace(func, body=body)


def _multiplied(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or node.op is not divide or not isinstance(node.args[1], Constant):
        return None
    divisor = node.args[1].data
    ty = node.args[1].ty
    if not isinstance(ty, TensorType) or not ty.dtype.is_float:
        return None
    reciprocal = np.asarray(1 / divisor).astype(divisor.dtype)
    if not np.all(np.isfinite(reciprocal) & is_normal(reciprocal)):
        return None
    return Builder(span=node.span).call(multiply, node.args[0], constant(reciprocal, ty.dtype))
