"""Dims of the program that no input has as an extent become what an extent makes of them.

    def @main(%x: Tensor[(2 * n,), float32]) { … n … }
        =>
    def @main(%x': Tensor[(m,), float32]) { let %x = match_cast(%x', Tensor[(2 * (m // 2),), float32]); … m // 2 … }

Dims of one size become that number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from legato.arith.bounds import bounds
from legato.arith.expr import Var as DimVar
from legato.arith.expr import const, fresh
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.ir.dim_values import solved
from legato.ir.expr import Function, MatchCast, Var
from legato.ir.let import lets
from legato.ir.module import Module
from legato.ir.types import Dim, FuncType, TensorType, TupleType, Type
from legato.transform._types import bound_dims
from legato.transform.narrow_dims import is_main_called, with_dims
from legato.transform.pass_ import Pass

__all__ = ["SolveDims"]


@dataclass(frozen=True, slots=True)
class SolveDims(Pass):
    """Module → module whose @main has dims that its inputs have as extents, where their shapes tell them."""

    name = "solve-dims"

    def __call__(self, mod: Module) -> Module:
        if "main" not in mod or not isinstance(main := mod["main"], Function):
            return mod
        if not _missing(main) or is_main_called(mod):
            return mod
        while (new := _solved(main)) is not main:
            main = new
        return mod.with_function(mod.var("main"), main)


def _missing(main: Function) -> list[DimVar]:
    """The dims that no input has as an extent, and those of one size."""
    plain = bound_dims(p.ty for p in main.params if p.ty is not None)
    dims = [d for d in main.type_params if isinstance(d, DimVar)]
    return [d for d in dims if d not in plain or d.lo == d.hi is not None]


def _solved(main: Function) -> Function:
    """`main` with one dim less that no input has as an extent; itself if there is none that an extent tells."""
    plain = bound_dims(p.ty for p in main.params if p.ty is not None)
    for d in _missing(main):
        if d.lo == d.hi and d.lo is not None:
            return with_dims(main, {d: const(d.lo)})
        for extent in _extents(main):
            if d in variables(extent) and plain.issuperset(v for v in variables(extent) if v is not d):
                ends = bounds(extent)
                own = fresh(f"{d.name}_extent", max(ends.lo or 0, 0), ends.hi)
                value = solved(d, extent, own)
                if value is not None:
                    return _with_extent(main, d, value, extent, own)
    return main


def _extents(main: Function) -> Iterator[Dim]:
    """The extents of the inputs that are tensors, or parts of tuples."""
    todo = [p.ty for p in main.params]
    while todo:
        ty = todo.pop(0)
        if isinstance(ty, TensorType):
            yield from ty.shape
        elif isinstance(ty, TupleType):
            todo += ty.fields


def _with_extent(main: Function, d: DimVar, value: Dim, extent: Dim, own: DimVar) -> Function:
    """`main` with `own` for an extent of its inputs, and `value` for dim `d`, of which that extent is made."""
    made = with_dims(main, {d: value})
    params, bound = [], []
    for old, new in zip(main.params, made.params, strict=True):
        assert old.ty is not None
        assert new.ty is not None
        param = Var(new.name, ty=_replaced(old.ty, new.ty, extent, own), span=new.span)
        if param.ty == new.ty:
            params.append(new)
        else:
            params.append(param)
            bound.append((new, MatchCast(param, new.ty, ty=new.ty, span=new.span)))
    given = (own, *made.type_params)
    types = tuple(p.ty for p in params if p.ty is not None)
    ty = FuncType(types, made.ty.ret, given) if isinstance(made.ty, FuncType) else made.ty
    return replace(made, params=tuple(params), body=lets(bound, made.body), type_params=given, ty=ty)


def _replaced(old: Type, new: Type, extent: Dim, own: DimVar) -> Type:
    """`new`, which `old` has become, with `own` where that had `extent`."""
    if isinstance(old, TensorType) and isinstance(new, TensorType):
        shape = tuple(own if a == extent else b for a, b in zip(old.shape, new.shape, strict=True))
        return TensorType(shape, new.dtype)
    if isinstance(old, TupleType) and isinstance(new, TupleType):
        pairs = zip(old.fields, new.fields, strict=True)
        return TupleType(tuple(_replaced(a, b, extent, own) for a, b in pairs))
    return new
