"""The dims of types and functions."""

from __future__ import annotations

from legato.arith.expr import Const
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.ir.expr import Function
from legato.ir.types import FuncType, ShapeType, TensorType, Type, TypeVar

__all__ = ["free_dims", "parameters"]


def free_dims(ty: Type) -> tuple[DimVar, ...]:
    """The dims that occur in a type and that no function type in it binds, in order of first occurrence."""
    if isinstance(ty, TensorType):
        return variables(*(d for d in ty.shape if not isinstance(d, Const)))  # most are literals
    found: dict[DimVar, None] = {}
    if isinstance(ty, ShapeType):
        found.update(dict.fromkeys(variables(*ty.dims or ())))
    for kid in ty.children():
        found.update(dict.fromkeys(free_dims(kid)))
    if isinstance(ty, FuncType):
        return tuple(d for d in found if d not in ty.type_params)
    return tuple(found)


def parameters(func: Function) -> tuple[TypeVar | DimVar, ...]:
    """The type parameters of a function of a module: those it lists, then the other dims of its parameters' types.

    A dim in a parameter's type is bound there, listed or not: inference lists them all. Not so in a closure, whose
    parameters may refer to dims of the function around it.
    """
    in_params = (d for p in func.params if p.ty is not None for d in free_dims(p.ty))
    return tuple(dict.fromkeys((*func.type_params, *in_params)))
