"""Algebraic simplification: local rewrites that need no more than an operator, its operands and their types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.effects import Effects
from legato.ir.expr import Call, Constant, Expr, Function, TupleGetItem
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import TensorType
from legato.ops import table
from legato.ops.conv import Conv2DAttrs, has_idle_taps
from legato.ops.join import split
from legato.patterns.match import Match
from legato.patterns.pattern import CallPattern, ExprPattern, TupleGetItemPattern
from legato.patterns.sweep import Local, Sweep, of_calls
from legato.transform._identities import (
    cast_twice,
    clip_twice,
    neutral,
    reciprocal_root,
    with_constants,
    within_bounds,
)
from legato.transform._numbers import (
    broadcast_number,
    concrete,
    of_broadcast,
    of_numbers,
    of_one_number,
    reshaped_number,
    scalar,
    sum_of_number,
)
from legato.transform.pass_ import FunctionPass

__all__ = ["Simplify"]

Rule = Callable[[Call], Expr | None]


@dataclass(frozen=True, slots=True)
class Simplify(FunctionPass):
    """Module → simpler module with the same values: bit for bit, but for sums that a norm forms in another order."""

    name = "simplify"

    def function(self, func: Function, mod: Module) -> Function:
        body = _sweep().over(func.body, Effects(func, mod))
        return func if body is func.body else replace(func, body=body)


@cache
def _sweep() -> Sweep:
    """The rules below: made on use, as they ask for operators by name."""
    found = [of_calls(table()[name], rule) for name, rules in RULES.items() for rule in rules]
    likes = [of_calls(table()[name], concrete, drops=True) for name in LIKES]
    return Sweep(
        *found, *likes, Local(TupleGetItemPattern(CallPattern(ExprPattern(split))), _field, name="field of split")
    )


def _same_type(call: Call) -> Expr | None:
    """reshape, cast, broadcast_to… to the type that the operand has already."""
    return call.args[0] if call.args[0].ty == call.ty else None


def _twice(call: Call) -> Expr | None:
    """reshape(reshape(x)) = reshape(x), for operators whose outcome depends on the result type alone."""
    inner = call.args[0]
    if not isinstance(inner, Call) or inner.op is not call.op or not isinstance(call.ty, TensorType):
        return None
    return _reshaped(inner.args[0], call.ty, call)


def _reshaped(x: Expr, ty: TensorType, like: Call) -> Expr:
    return Builder(span=like.span).op("reshape")(x, newshape=ty.shape, allowzero=True)


def _as_reshape(call: Call) -> Expr | None:
    """squeeze, expand_dims and batch_flatten are reshapes."""
    return _reshaped(call.args[0], call.ty, call) if isinstance(call.ty, TensorType) else None


def _transposes(call: Call) -> Expr | None:
    """transpose(transpose(x)): one permutation; none where it is the identity."""
    axes = _axes(call)
    if axes is None:
        return None
    if axes == tuple(range(len(axes))):
        return call.args[0]
    inner = call.args[0]
    if not isinstance(inner, Call) or inner.op is not call.op:
        return None
    first = _axes(inner)
    assert first is not None
    return Builder(span=call.span).op("transpose")(inner.args[0], axes=tuple(first[a] for a in axes))


def _axes(call: Call) -> tuple[int, ...] | None:
    """The permutation of a transpose, spelled out."""
    ty = call.args[0].ty
    if not isinstance(ty, TensorType):
        return None
    axes = call.attrs.axes
    return tuple(range(ty.rank))[::-1] if not axes else tuple(a % ty.rank for a in axes)


def _groups(norm: Call) -> Expr | None:
    """instance_norm(reshape(x)), where channels are normalised in groups, as ONNX writes it: reshape(group_norm(x)).
    Images stay images then, whatever their order in memory."""
    inner, gamma, beta = norm.args
    if not isinstance(inner, Call) or not isinstance(inner.op, Op) or inner.op.name != "reshape":
        return None
    ty, split = inner.args[0].ty, inner.ty
    if not isinstance(ty, TensorType) or not isinstance(split, TensorType) or ty.rank < 2 or split.rank != 3:
        return None
    many, of = split.shape[1], ty.shape[1]
    if norm.attrs.axis % 3 != 1 or ty.shape[0] != split.shape[0]:
        return None
    if not isinstance(many, Const) or not isinstance(of, Const) or many.value < 1 or of.value % many.value:
        return None
    groups, each = int(many.value), int(of.value // many.value)
    b, a = Builder(span=norm.span), norm.attrs
    factors = (b.call("repeat", p, repeats=each, axis=0) for p in (gamma, beta))
    image = b.op("nn.group_norm")(
        inner.args[0], *factors, num_groups=groups, epsilon=a.epsilon, center=a.center, scale=a.scale
    )
    return b.call_op(inner.op, [image], inner.attrs)


def _finite_weight(call: Call) -> Expr | None:
    """A convolution of constant weights that are finite says so where it spares products with zeros."""
    data, weight = call.args
    if isinstance(call.attrs, Conv2DAttrs) and (
        not isinstance(data.ty, TensorType)
        or not isinstance(weight.ty, TensorType)
        or not has_idle_taps(data.ty, weight.ty, call.attrs)
    ):
        return None
    if call.attrs.finite_weight or not isinstance(weight, Constant) or not np.isfinite(weight.data).all():
        return None
    return replace(call, attrs=replace(call.attrs, finite_weight=True))


def _field(old: Expr, node: Expr, match: Match) -> Expr | None:
    """A field of split is a slice: it can be fused into what reads it."""
    assert isinstance(node, TupleGetItem)
    call = node.value
    assert isinstance(call, Call)
    ty, data = node.ty, call.args[0].ty
    if not isinstance(ty, TensorType) or not isinstance(data, TensorType) or call.ty is None:
        return None
    axis = call.attrs.axis % data.rank
    fields = getattr(call.ty, "fields", ())
    begin = sum((f.shape[axis] for f in fields[: node.index]), start=ty.shape[axis] * 0)
    return Builder(span=node.span).op("strided_slice")(
        call.args[0], begin=(begin,), end=(begin + ty.shape[axis],), strides=(1,), axes=(axis,)
    )


LIKES = ("zeros_like", "ones_like", "full_like")  # what they read is not needed
OF_NUMBERS: tuple[Rule, ...] = (of_numbers, of_one_number, of_broadcast)
RULES: dict[str, tuple[Rule, ...]] = {
    "reshape": (_same_type, reshaped_number, _twice),
    "squeeze": (_as_reshape,),
    "expand_dims": (_as_reshape,),
    "nn.batch_flatten": (_as_reshape,),
    "cast": (_same_type, cast_twice),
    "broadcast_to": (_same_type, broadcast_number),
    "collapse_sum_to": (_same_type,),
    "transpose": (_transposes,),
    "clip": (within_bounds, clip_twice),
    "add": (neutral, with_constants, *OF_NUMBERS),
    "subtract": (neutral, *OF_NUMBERS),
    "multiply": (neutral, with_constants, *OF_NUMBERS),
    "divide": (neutral, reciprocal_root, *OF_NUMBERS),
    "maximum": OF_NUMBERS,
    "minimum": OF_NUMBERS,
    "power": OF_NUMBERS,
    "sum": (sum_of_number,),
    "full": (scalar,),
    "zeros": (scalar,),
    "ones": (scalar,),
    "copy": (_same_type,),
    "nn.instance_norm": (_groups,),
    "nn.conv1d": (_finite_weight,),
    "nn.conv2d": (_finite_weight,),
    "nn.conv3d": (_finite_weight,),
    "nn.conv1d_transpose": (_finite_weight,),
    "nn.conv2d_transpose": (_finite_weight,),
    "nn.conv3d_transpose": (_finite_weight,),
}
