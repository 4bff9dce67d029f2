"""Types with their variables replaced."""

from __future__ import annotations

from collections.abc import Mapping

from legato.arith.expr import Var
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.ir.types import Dim, FuncType, ShapeType, TensorType, Type, TypeVar

__all__ = ["rename_params", "replace_dim", "replace_vars"]


def replace_vars(ty: Type, types: Mapping[TypeVar, Type], dims: Mapping[Var, Dim]) -> Type:
    """`ty` with type and dim variables replaced."""
    if isinstance(ty, TypeVar):
        return types.get(ty, ty)
    if isinstance(ty, TensorType):
        return TensorType(tuple(replace_dim(d, dims) for d in ty.shape), ty.dtype)
    if isinstance(ty, ShapeType):
        return ty if ty.dims is None else ShapeType(tuple(replace_dim(d, dims) for d in ty.dims))
    kids = ty.children()
    return ty.with_children(tuple(replace_vars(k, types, dims) for k in kids)) if kids else ty


def replace_dim(d: Dim, dims: Mapping[Var, Dim]) -> Dim:
    """`d` with variables replaced, in normal form where one was."""
    if isinstance(d, Var):
        return dims.get(d, d)
    if not dims or not d.children():
        return d
    new = substitute(d, dims)
    return d if new is d else simplify(new)


def rename_params(ty: FuncType, params: tuple[TypeVar | Var, ...]) -> FuncType | None:
    """`ty` with its type parameters, as many, called as `params`; None if one is a type where the other is a dim."""
    if ty.type_params == params:
        return ty
    types: dict[TypeVar, Type] = {}
    dims: dict[Var, Dim] = {}
    for old, new in zip(ty.type_params, params, strict=True):
        if isinstance(old, TypeVar) and isinstance(new, TypeVar):
            types[old] = new
        elif isinstance(old, Var) and isinstance(new, Var):
            dims[old] = new
        else:
            return None
    new_ty = replace_vars(FuncType(ty.params, ty.ret), types, dims)
    assert isinstance(new_ty, FuncType)
    return FuncType(new_ty.params, new_ty.ret, params)
