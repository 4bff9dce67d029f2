"""Operators whose data decides the extents of their results become those that pad them, and cuts.

argwhere(%x)                                    of type Tensor[(found, 2), int32]
    =>
let %all = argwhere_padded(%x);
let %dims = match_cast(tensor_to_shape(%all.1), Shape[(found,)]);
match_cast(strided_slice(%all.0, begin=[0], end=[found], axes=[0]), Tensor[(found, 2), int32])
"""

from __future__ import annotations

from dataclasses import replace

from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir._dims import free_dims
from legato.ir.contents import called_operators
from legato.ir.expr import Call, Expr, Function, Var
from legato.ir.let import lets
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.tensor_to_shape import TENSOR_TO_SHAPE
from legato.ir.types import ShapeType, TensorType, TupleType, Type
from legato.transform.pass_ import FunctionPass

__all__ = ["CutPadded"]


@dataclass(frozen=True, slots=True)
class CutPadded(FunctionPass):
    """Typed module → module without calls of operators that have a `padded` one."""

    name = "cut-padded"

    def function(self, func: Function, mod: Module) -> Function:
        if all(op.padded is None for op in called_operators(func)):
            return func
        body = transform(func.body, _cut)
        return func if body is func.body else replace(func, body=body)


def _cut(node: Expr) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.padded is None or node.ty is None:
        return None
    b = Builder(span=node.span)
    padded = b.call_op(node.op.padded, node.args, node.attrs)
    whole = Var("padded", ty=padded.ty, span=node.span)
    known = {d for a in node.args if a.ty is not None for d in free_dims(a.ty)}
    dims = tuple(d for d in free_dims(node.ty) if d not in known)
    wanted = node.ty.fields if isinstance(node.ty, TupleType) else (node.ty,)
    shape = b.match_cast(b.call(TENSOR_TO_SHAPE, b.get(whole, len(wanted))), ShapeType(dims))
    parts = [_part(b, b.get(whole, n), ty, dims) for n, ty in enumerate(wanted)]
    result = b.tuple_(parts) if isinstance(node.ty, TupleType) else parts[0]
    return lets([(whole, padded), (Var("dims", ty=shape.ty, span=node.span), shape)], result)


def _part(b: Builder, whole: Expr, ty: Type, dims: tuple[DimVar, ...]) -> Expr:
    """What is wanted of one padded result."""
    if not isinstance(ty, TensorType) or not isinstance(whole.ty, TensorType):
        raise InternalError(f"a padded result is of type {whole.ty}, wanted {ty}")
    axes = tuple(n for n, d in enumerate(ty.shape) if d in dims)
    if not axes:
        return whole
    end = tuple(ty.shape[n] for n in axes)
    cut = b.strided_slice(whole, begin=(0,) * len(axes), end=end, strides=(1,) * len(axes), axes=axes)
    return b.match_cast(cut, ty)
