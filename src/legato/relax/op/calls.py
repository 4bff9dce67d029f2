"""Calls of tensor programs of the module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.base.errors import TypeCheckError
from legato.ir.call_tir import call_tir as call_program
from legato.ir.expr import Call, Expr, GlobalVar, Shape
from legato.ir.types import TensorType, TupleType
from legato.relax.expr import as_expr
from legato.relax.ty import as_dim, as_type

__all__ = ["call_tir", "call_tir_inplace"]


def call_tir(
    gvar: GlobalVar, args: Any, out_ty: Any = None, tir_vars: Any = None, *, out_sinfo: Any = None
) -> Call:  # fmt: skip
    """The call of the tensor program `gvar` on tensors; outputs, of type `out_ty`, are allocated and are its result."""
    return _called(gvar, args, (), out_ty if out_sinfo is None else out_sinfo, tir_vars)


def call_tir_inplace(
    gvar: GlobalVar, args: Any, inplace_indices: int | Sequence[int], out_ty: Any = None, tir_vars: Any = None, *,
    out_sinfo: Any = None,
) -> Call:  # fmt: skip
    """The call of a program that stores to some of the tensors: result number i is what it makes of tensor number
    `inplace_indices[i]`, or memory of its own where that is -1. The tensors themselves stay as they are."""
    places = (inplace_indices,) if isinstance(inplace_indices, int) else tuple(inplace_indices)
    call = _called(gvar, args, places, out_ty if out_sinfo is None else out_sinfo, tir_vars)
    if len(call.attrs.out) != len(places):
        raise TypeCheckError(f"{len(call.attrs.out)} results for {len(places)} of inplace_indices")
    return call


def _called(gvar: GlobalVar, args: Any, places: Sequence[int], form: Any, tir_vars: Any) -> Call:
    out = [_tensor(f) for f in (form if isinstance(form, list | tuple) else _fields(form))]
    dims = tir_vars.dims if isinstance(tir_vars, Shape) else tuple(map(as_dim, tir_vars or ()))
    if isinstance(args, Expr) and isinstance(args.ty, TupleType):
        call = call_program(gvar, [], out, dims, inplace=places)
        return Call(call.op, (gvar, args), call.attrs, ty=call.ty)
    given: Sequence[Any] = args if isinstance(args, list | tuple) else (args,)
    return call_program(gvar, [as_expr(a) for a in given], out, dims, inplace=places)


def _fields(form: Any) -> Sequence[Any]:
    if form is None:
        raise TypeCheckError("the call is not told what it gives", hint="out_ty=relax.TensorType((n, 4))")
    ty = as_type(form)
    return ty.fields if isinstance(ty, TupleType) else (ty,)


def _tensor(form: Any) -> TensorType:
    ty = as_type(form)
    if not isinstance(ty, TensorType):
        raise TypeCheckError("outputs of a tensor program are tensors of known rank and dtype")
    return ty
