"""Scales and shifts of channels move into the constant weights that precede them.

    multiply(conv(x, W), s)       =>  conv(x, W·s)             s: one factor per output channel
    multiply(add(x, c), s)        =>  add(multiply(x, s), c·s)
    add(add(x, c), d)             =>  add(x, c + d)

Only where the inner result is used nowhere else; otherwise it would be computed twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.node import post_order, rebuild
from legato.base.pool import Pool
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, Function, constant
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.ops.binary import add, multiply
from legato.ops.conv import conv1d, conv2d, conv3d
from legato.ops.linalg import dense, matmul
from legato.transform.pass_ import FunctionPass

__all__ = ["FoldScale"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class FoldScale(FunctionPass):
    """Module → module with fewer multiplications and additions behind contractions."""

    name = "fold-scale"

    def function(self, func: Function, mod: Module) -> Function:
        order = list(post_order([func.body]))
        uses = Counter(id(c) for node in order for c in node.children())
        shared: set[int] = set()  # new nodes that stand for a node with several users
        new: dict[int, Expr] = {}
        pool = Pool()
        for node in order:
            done = _folded(rebuild(node, new), shared, pool)
            new[id(node)] = done
            if uses[id(node)] > 1:
                shared.add(id(done))
        body = new[id(func.body)]
        return func if body is func.body else replace(func, body=body)


def _folded(node: Expr, shared: set[int], pool: Pool) -> Expr:
    if not isinstance(node, Call) or (node.op is not add and node.op is not multiply):
        return node
    inner, factor = node.args if isinstance(node.args[1], Constant) else node.args[::-1]
    if not isinstance(inner, Call) or not isinstance(factor, Constant) or id(inner) in shared:
        return node
    if inner.ty != node.ty or not isinstance(node.ty, TensorType) or not node.ty.dtype.is_float:
        return node
    new = _scaled(inner, factor, shared, pool) if node.op is multiply else _shifted(inner, factor)
    return node if new is None else new


def _shifted(inner: Call, shift: Constant) -> Expr | None:
    """add(add(x, c), shift)."""
    if inner.op is not add or not isinstance(inner.args[1], Constant):
        return None
    x, old = inner.args[0], inner.args[1].data
    return None if x.ty != inner.ty else _call(inner, add, x, constant(old + shift.data))


def _scaled(inner: Call, factor: Constant, shared: set[int], pool: Pool) -> Expr | None:
    """multiply(inner, factor)."""
    if inner.op is add and isinstance(inner.args[1], Constant) and inner.args[0].ty == inner.ty:
        x, old = inner.args[0], inner.args[1].data
        if not isinstance(x, Call) or id(x) in shared:
            return None
        product = _scaled(x, factor, shared, pool)
        return None if product is None else _call(inner, add, product, constant(old * factor.data))
    return _into_weight(inner, factor.data, pool)


def _into_weight(call: Call, factor: Array, pool: Pool) -> Expr | None:
    """The contraction `call` with its constant weight multiplied by one factor per output channel."""
    axes = _channel_axes(call)
    if axes is None or not isinstance(call.ty, TensorType) or not isinstance(call.args[1], Constant):
        return None
    out_axis, weight_axis = axes
    aligned = (
        factor.reshape((1,) * (call.ty.rank - factor.ndim) + factor.shape) if factor.ndim <= call.ty.rank else None
    )
    if aligned is None or any(n != 1 for d, n in enumerate(aligned.shape) if d != out_axis):
        return None
    weight = call.args[1].data
    if weight.dtype != factor.dtype:
        return None  # the product would be rounded to the weight's dtype
    if aligned.shape[out_axis] not in (1, weight.shape[weight_axis]):
        return None
    shape = [-1 if d == weight_axis else 1 for d in range(weight.ndim)]
    product = np.multiply(weight, aligned.reshape(shape), out=pool.empty(weight.shape, weight.dtype))
    product.setflags(write=False)
    return replace(call, args=(call.args[0], Constant(product, ty=call.args[1].ty)))


def _channel_axes(call: Call) -> tuple[int, int] | None:
    """(axis of the result, axis of the weight) of the output channels of a contraction."""
    if not isinstance(call.ty, TensorType):
        return None
    if call.op in (conv1d, conv2d, conv3d):
        layout = call.attrs.out_layout or call.attrs.data_layout
        return layout.index("C"), call.attrs.kernel_layout.index("O")
    if call.op is dense:
        return call.ty.rank - 1, 0
    if call.op is matmul and isinstance(call.args[1], Constant) and call.args[1].data.ndim == 2:
        return call.ty.rank - 1, 1
    return None


def _call(like: Call, op: Expr, *args: Expr) -> Expr:
    return Builder(span=like.span).call(op, *args)
