"""Normalisations by statistics of the data become arithmetic on means and sums.

nn.layer_norm(x, γ, β)         =>  c / √(mean(c·c) + ε) · γ + β        with c = x − mean(x), along its dims
nn.instance_norm(x, γ, β)      =>  the same along all dims but the first and the channels
nn.group_norm(x, γ, β)         =>  the same along all dims but the first and the groups, on reshape(x)
nn.l2_normalize(x)             =>  x / √max(sum(x·x), ε)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.effects import Effects
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ir.types import Dim, TensorType
from legato.ops._normalise import compute_dtype
from legato.ops.norm import group_norm, instance_norm, layer_norm
from legato.ops.rescale import l2_normalize
from legato.transform.pass_ import FunctionPass

__all__ = ["ExpandNorms"]

_NORMS = (layer_norm, instance_norm, group_norm)


@dataclass(frozen=True, slots=True)
class ExpandNorms(FunctionPass):
    """Typed module → typed module. 16-bit floats are computed in float32, as by the operators.

    A norm stays whose groups are formed of channels that no literal counts, which is over no dims, or which evaluates
    a parameter for its effects alone.
    """

    name = "expand-norms"
    rounds = True

    def function(self, func: Function, mod: Module) -> Function:
        effects = Effects(func, mod)
        body = transform(func.body, lambda node: _expanded(node, effects))
        return func if body is func.body else replace(func, body=body)


def _expanded(node: Expr, effects: Effects) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.ty, TensorType):
        return None
    if node.op is l2_normalize:
        return _l2(node, node.ty)
    if node.op in _NORMS and any(effects.inside(p) for p in _unused(node)):
        return None
    if node.op is layer_norm:
        axis = node.attrs.axis
        return _norm(node, node.ty, [a % node.ty.rank for a in ((axis,) if isinstance(axis, int) else axis)])
    if node.op is instance_norm:
        return _norm(node, node.ty, [d for d in range(1, node.ty.rank) if d != node.attrs.axis % node.ty.rank])
    return _groups(node, node.ty) if node.op is group_norm else None


def _unused(norm: Call) -> list[Expr]:
    """The parameters that no element depends on."""
    used = (norm.attrs.scale, norm.attrs.center)
    return [p for p, is_used in zip(norm.args[1:], used, strict=True) if not is_used]


def _l2(call: Call, ty: TensorType) -> Expr:
    b, a = Builder(span=call.span), call.attrs
    x = _cast(b, call.args[0], compute_dtype(ty.dtype))
    axes = a.axis if a.axis != () else tuple(range(ty.rank))
    squares = b.sum(b.multiply(x, x), axis=axes, keepdims=True)
    return _cast(b, b.divide(x, b.sqrt(b.maximum(squares, a.eps))), ty.dtype)


def _norm(call: Call, ty: TensorType, axes: Sequence[int]) -> Expr | None:
    """Of the elements along `axes`; parameters are along these, or along the channels."""
    if not axes:
        return None
    b, dtype = Builder(span=call.span), _dtype(call)
    y = _standardised(b, _cast(b, call.args[0], dtype), axes, call.attrs.epsilon)
    along = axes if call.op is layer_norm else [call.attrs.axis % ty.rank]
    return _cast(b, _affine(b, call, y, [n if d in along else Const(1) for d, n in enumerate(ty.shape)]), ty.dtype)


def _groups(call: Call, ty: TensorType) -> Expr | None:
    axis, count = call.attrs.axis % ty.rank, call.attrs.num_groups
    channels = ty.shape[axis]
    if not isinstance(channels, Const):
        return None
    b, dtype = Builder(span=call.span), _dtype(call)
    parts: list[Dim] = [Const(count), Const(channels.value // count)]
    split = b.reshape(_cast(b, call.args[0], dtype), newshape=(*ty.shape[:axis], *parts, *ty.shape[axis + 1 :]),
                      allowzero=True)  # fmt: skip
    y = _standardised(b, split, [d for d in range(1, ty.rank + 1) if d != axis], call.attrs.epsilon)
    whole = b.reshape(y, newshape=ty.shape, allowzero=True)
    return _cast(b, _affine(b, call, whole, [n if d == axis else Const(1) for d, n in enumerate(ty.shape)]), ty.dtype)


def _dtype(call: Call) -> DType:
    """What the operator computes in."""
    return compute_dtype(*(a.ty.dtype for a in call.args if isinstance(a.ty, TensorType)))


def _standardised(b: Builder, x: Expr, axes: Sequence[int], epsilon: float) -> Expr:
    """(x − mean)/√(variance + epsilon)."""
    centred = b.subtract(x, b.mean(x, axis=tuple(axes), keepdims=True))
    variance = b.mean(b.multiply(centred, centred), axis=tuple(axes), keepdims=True)
    return b.divide(centred, b.sqrt(b.add(variance, epsilon)))


def _affine(b: Builder, call: Call, x: Expr, shape: Sequence[Dim]) -> Expr:
    """γ·x + β as far as the attributes ask for it."""
    sizes = tuple(int(n.value) if isinstance(n, Const) else n for n in shape)
    gamma, beta = (b.reshape(_cast(b, p, _dtype(call)), newshape=sizes, allowzero=True) for p in call.args[1:])
    x = b.multiply(x, gamma) if call.attrs.scale else x
    return b.add(x, beta) if call.attrs.center else x


def _cast(b: Builder, x: Expr, dtype: DType) -> Expr:
    return x if isinstance(x.ty, TensorType) and x.ty.dtype is dtype else b.cast(x, dtype=dtype.name)
