"""Scales and shifts of channels move into the weights and the bias of the contraction that precedes them.

    multiply(conv(x, W), s)               =>  conv(x, W·s)                     s: one factor per output channel
    multiply(add(conv(x, W), c), s)       =>  add(conv(x, W·s), c·s)
    add(add(conv(x, W), c), d)            =>  add(conv(x, W), c + d)
    subtract(conv(x, W), d)               =>  add(conv(x, W), -d)

Sums and products are rounded at other places then, so it is a pass that `rounds`. Only constants move, and only where
nothing else is lost: what they become is finite and normal (or 0 because a factor is), and no constant is there to
round what it is added to, as in (x + 1.5·2²³) - 1.5·2²³. Only where the inner result is used nowhere else; otherwise it
would be computed twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.node import post_order, rebuild
from legato.base.pool import Pool
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, Function, constant
from legato.ir.layout import is_blocked
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.ops.binary import add, multiply, subtract
from legato.ops.conv import conv1d, conv2d, conv3d
from legato.ops.linalg import dense, matmul
from legato.runtime.floats import float_environment
from legato.transform._normal import is_normal
from legato.transform._scales import LARGE, is_sound
from legato.transform.pass_ import FunctionPass

__all__ = ["FoldScale"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class FoldScale(FunctionPass):
    """Module → module with fewer multiplications and additions behind contractions."""

    name = "fold-scale"
    rounds = True

    def function(self, func: Function, mod: Module) -> Function:
        order = list(post_order([func.body]))
        uses = Counter(id(c) for node in order for c in node.children())
        shared: set[int] = set()  # new nodes that stand for a node with several users
        new: dict[int, Expr] = {}
        pool = Pool()
        with float_environment():
            for node in order:
                done = _folded(rebuild(node, new), shared, pool)
                new[id(node)] = done
                if uses[id(node)] > 1:
                    shared.add(id(done))
        body = new[id(func.body)]
        return func if body is func.body else replace(func, body=body)


def _folded(node: Expr, shared: set[int], pool: Pool) -> Expr:
    if not isinstance(node, Call) or (node.op is not add and node.op is not multiply and node.op is not subtract):
        return node
    is_left = isinstance(node.args[1], Constant) or node.op is subtract
    inner, factor = node.args if is_left else node.args[::-1]
    if not isinstance(inner, Call) or not isinstance(factor, Constant) or id(inner) in shared:
        return node
    if inner.ty != node.ty or not isinstance(node.ty, TensorType) or not node.ty.dtype.is_float:
        return node
    call, bias = _biased(inner)
    if _channel_axes(call) is None or id(call) in shared:
        return node
    is_product, c = node.op is multiply, factor.data
    new = _scaled(call, bias, c, pool) if is_product else _shifted(call, bias, node.op, c)
    return node if new is None else new


def _biased(inner: Call) -> tuple[Call, Array | None]:
    """(x, c) of add(x, c); `inner` itself and None if it is no such sum."""
    if inner.op is not add or not isinstance(inner.args[1], Constant):
        return inner, None
    x = inner.args[0]
    return (x, inner.args[1].data) if isinstance(x, Call) and x.ty == inner.ty else (inner, None)


def _shifted(call: Call, bias: Array | None, op: Expr, shift: Array) -> Expr | None:
    """add(call + bias, shift), or subtract."""
    if op is subtract:
        shift = np.negative(shift)
    elif bias is None:
        return None  # a sum with a constant already
    if bias is None:
        return _call(call, add, call, _as_constant(shift))
    total = np.asarray(bias + shift)
    if _dwarfs(bias, call) or _dwarfs(shift, call) or not np.isfinite(total).all():
        return None
    is_sound = ((total == 0) | is_normal(total)).all()
    return _call(call, add, call, _as_constant(total)) if is_sound else None


def _scaled(call: Call, bias: Array | None, factor: Array, pool: Pool) -> Expr | None:
    """multiply(call + bias, factor)."""
    if bias is None:
        return _into_weight(call, factor, pool)
    moved = np.asarray(bias * factor)
    if _dwarfs(bias, call) or not is_sound(moved, bias, factor):
        return None
    product = _into_weight(call, factor, pool)
    return None if product is None else _call(call, add, product, _as_constant(moved))


def _dwarfs(shift: Array, call: Call) -> bool:
    """Whether `shift` is so large beside the contraction that it is there to round."""
    largest, axes, weight = float(np.abs(shift).max(initial=0)), _channel_axes(call), call.args[1]
    assert axes is not None
    if largest <= LARGE or not isinstance(weight, Constant):
        return not largest <= LARGE
    others = tuple(d for d in range(weight.data.ndim) if d != axes[1])
    sums = np.abs(weight.data).sum(axis=others, dtype=np.float64)
    return largest > LARGE * max(1.0, float(sums.max(initial=0)))


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
    factors = aligned.reshape([-1 if d == weight_axis else 1 for d in range(weight.ndim)])
    product = np.multiply(weight, factors, out=pool.empty(weight.shape, weight.dtype))
    if not is_sound(product, weight, factors):
        return None
    product.setflags(write=False)
    return replace(call, args=(call.args[0], Constant(product, ty=call.args[1].ty)))


def _channel_axes(call: Call) -> tuple[int, int] | None:
    """(axis of the result, axis of the weight) of the output channels of a contraction."""
    if not isinstance(call.ty, TensorType):
        return None
    if call.op in (conv1d, conv2d, conv3d):
        layout = call.attrs.out_layout or call.attrs.data_layout
        if is_blocked(layout) or is_blocked(call.attrs.kernel_layout):
            return None
        return layout.index("C"), call.attrs.kernel_layout.index("O")
    if call.op is dense:
        return call.ty.rank - 1, 0
    if call.op is matmul and isinstance(call.args[1], Constant) and call.args[1].data.ndim == 2:
        return call.ty.rank - 1, 1
    return None


def _as_constant(x: Array) -> Constant:
    return constant(np.asarray(x), dt.dtype(x.dtype))


def _call(like: Call, op: Expr, *args: Expr) -> Expr:
    return Builder(span=like.span).call(op, *args)
