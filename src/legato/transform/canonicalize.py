"""Canonical forms, so that later passes see one way of saying a thing.

nn.bias_add(x, b)                     =>  add(x, reshape(b))
nn.batch_norm(x, γ, β, μ, σ²).0       =>  add(multiply(x, s), t)      with s = γ / √(σ² + ε), t = β − μ·s
nn.dropout(x).0                       =>  x
layout_transform(x)                   =>  transpose(x)       where no axis is in blocks
(a, b).0                              =>  a       where b has no effects
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, constant
from legato.ir.layout import layout
from legato.ir.module import Module
from legato.ir.types import TensorType
from legato.ops._normalise import compute_dtype
from legato.ops.activation import dropout
from legato.ops.channelwise import bias_add
from legato.ops.layout_transform import layout_transform
from legato.ops.rescale import batch_norm, scale_and_shift
from legato.ops.transpose import TransposeAttrs, transpose
from legato.runtime.floats import float_environment
from legato.transform._effects import Effects
from legato.transform.pass_ import FunctionPass

__all__ = ["Canonicalize"]


@dataclass(frozen=True, slots=True)
class Canonicalize(FunctionPass):
    """Module → module in canonical form."""

    name = "canonicalize"
    computed: bool = False  # batch norms of parameters that are not constants, too, in which roundings differ

    def function(self, func: Function, mod: Module) -> Function:
        effects = Effects(func, mod)
        body = transform(func.body, lambda node: _canonical(node, effects, self.computed))
        return func if body is func.body else replace(func, body=body)


def _canonical(node: Expr, effects: Effects, computed: bool) -> Expr | None:
    match node:
        case Call() if node.op is bias_add:
            return _bias_add(node)
        case Call() if node.op is layout_transform:
            return _transposed(node)
        case TupleGetItem(value=Call() as call, index=0) if call.op is batch_norm:
            found = _batch_norm(call)
            return _batch_norm_of_computed(call, effects) if found is None and computed else found
        case TupleGetItem(value=Call() as call, index=0) if call.op is dropout:
            return call.args[0]
        case TupleGetItem(value=Tuple() as value) if not effects.inside(value):
            return value.fields[node.index]
        case _:
            return None


def along(data: np.ndarray[tuple[int, ...], np.dtype[np.generic]], axis: int, rank: int) -> Constant:
    """A vector as a constant that broadcasts along `axis` of a tensor of `rank`."""
    return constant(data.reshape([-1 if d == axis % rank else 1 for d in range(rank)]))


def _bias_add(node: Call) -> Expr | None:
    x, bias = node.args
    if not isinstance(x.ty, TensorType):
        return None
    rank, axis = x.ty.rank, node.attrs.axis % x.ty.rank
    b = Builder(span=node.span)
    if isinstance(bias, Constant):
        return b.add(x, along(bias.data, axis, rank))
    shape = tuple(-1 if d == axis else 1 for d in range(rank))
    return b.add(x, b.reshape(bias, newshape=shape))


def _transposed(node: Call) -> Expr | None:
    source, target = layout(node.attrs.src_layout), layout(node.attrs.dst_layout)
    if source.is_blocked or target.is_blocked:
        return None
    axes = tuple(source.dims.index(d) for d in target.dims)
    return Builder(span=node.span).call_op(transpose, node.args, TransposeAttrs(axes))


def _batch_norm(call: Call) -> Expr | None:
    """Only for constant statistics in the dtype of the data, whose arithmetic is its own: it rounds as the operator."""
    x, *params = call.args
    if not isinstance(x.ty, TensorType) or x.ty.dtype.bits < 32:
        return None
    gamma, beta, mean, var = (p.data if isinstance(p, Constant) else None for p in params)
    if gamma is None or beta is None or mean is None or var is None:
        return None
    if any(p.dtype != x.ty.dtype.numpy for p in (gamma, beta, mean, var)):
        return None
    with float_environment():
        scale, shift = scale_and_shift(gamma, beta, mean, var, call.attrs)
    rank, axis, b = x.ty.rank, call.attrs.axis, Builder(span=call.span)
    return b.add(b.multiply(x, along(scale, axis, rank)), along(shift, axis, rank))


def _batch_norm_of_computed(call: Call, effects: Effects) -> Expr | None:
    """The same for parameters that are computed, or given; in the dtype that the operator computes in. None where one
    is evaluated for its effects alone."""
    types = [a.ty for a in call.args if isinstance(a.ty, TensorType)]
    unused = [p for p, used in zip(call.args[1:3], (call.attrs.scale, call.attrs.center), strict=True) if not used]
    if len(types) < len(call.args) or any(map(effects.inside, unused)):
        return None
    b, attrs, dtype, rank = Builder(span=call.span), call.attrs, compute_dtype(*(t.dtype for t in types)), types[0].rank
    x, gamma, beta, mean, var = (
        a if t.dtype is dtype else b.cast(a, dtype=dtype.name) for a, t in zip(call.args, types, strict=True)
    )
    scale = b.divide(1.0, b.sqrt(b.add(var, attrs.epsilon)))
    scale = b.multiply(scale, gamma) if attrs.scale else scale
    shift = b.subtract(beta, b.multiply(mean, scale)) if attrs.center else b.negative(b.multiply(mean, scale))
    shape = tuple(-1 if d == attrs.axis % rank else 1 for d in range(rank))
    y = b.add(b.multiply(x, b.reshape(scale, newshape=shape)), b.reshape(shift, newshape=shape))
    return y if types[0].dtype is dtype else b.cast(y, dtype=types[0].dtype.name)
