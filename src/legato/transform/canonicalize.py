"""Canonical forms, so that later passes see one way of saying a thing.

nn.bias_add(x, b)                     =>  add(x, reshape(b))
nn.batch_norm(x, γ, β, μ, σ²).0       =>  add(multiply(x, s), t)      with s = γ / √(σ² + ε), t = β − μ·s
nn.dropout(x).0                       =>  x
layout_transform(x)                   =>  transpose(x)       where no axis is in blocks
(a, b).0                              =>  a       where b has no effects
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.effects import Effects
from legato.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, constant
from legato.ir.layout import layout
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.ops._normalise import compute_dtype
from legato.ops.activation import dropout
from legato.ops.channelwise import bias_add
from legato.ops.layout_transform import layout_transform
from legato.ops.rescale import batch_norm, scale_and_shift
from legato.ops.transpose import TransposeAttrs, transpose
from legato.patterns.match import Match
from legato.patterns.pattern import CallPattern, ExprPattern, TupleGetItemPattern, TuplePattern
from legato.patterns.sweep import Local, Sweep, of_calls
from legato.runtime.floats import float_environment
from legato.transform.pass_ import FunctionPass

__all__ = ["Canonicalize"]


@dataclass(frozen=True, slots=True)
class Canonicalize(FunctionPass):
    """Module → module in canonical form."""

    name = "canonicalize"
    computed: bool = False  # batch norms of parameters that are not constants, too, in which roundings differ

    def function(self, func: Function, mod: Module) -> Function:
        body = (_COMPUTED if self.computed else _CONSTANT).over(func.body, Effects(func, mod))
        return func if body is func.body else replace(func, body=body)


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


def _batch_norm_of_computed(call: Call) -> Expr | None:
    """The same for parameters that are computed, or given; in the dtype that the operator computes in. They are
    evaluated in another order."""
    types = [a.ty for a in call.args if isinstance(a.ty, TensorType)]
    if len(types) < len(call.args):
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


def _call_inside(rule: Callable[[Call], Expr | None]) -> Callable[[Expr, Expr, Match], Expr | None]:
    """A rule for the call whose field a node is."""

    def build(old: Expr, now: Expr, match: Match) -> Expr | None:
        assert isinstance(now, TupleGetItem)
        assert isinstance(now.value, Call)
        return rule(now.value)

    return build


def _field(old: Expr, now: Expr, match: Match) -> Expr | None:
    assert isinstance(now, TupleGetItem)
    assert isinstance(now.value, Tuple)
    return now.value.fields[now.index]


def _first_of(op: Op) -> TupleGetItemPattern:
    return TupleGetItemPattern(CallPattern(ExprPattern(op)), 0)


RULES: Final = (
    of_calls(bias_add, _bias_add),
    of_calls(layout_transform, _transposed),
    Local(_first_of(batch_norm), _call_inside(_batch_norm), name="batch_norm of constants"),
    Local(_first_of(dropout), _call_inside(lambda call: call.args[0]), name="dropout"),
    Local(TupleGetItemPattern(TuplePattern()), _field, name="field of a tuple", drops=True),
)
_CONSTANT: Final = Sweep(*RULES)
_COMPUTED: Final = Sweep(
    *RULES,
    Local(_first_of(batch_norm), _call_inside(_batch_norm_of_computed), name="batch_norm of values", drops=True),
)
