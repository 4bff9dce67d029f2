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

__all__ = ["call_tir"]


def call_tir(
    gvar: GlobalVar, args: Any, out_ty: Any = None, tir_vars: Any = None, *, out_sinfo: Any = None
) -> Call:  # fmt: skip
    """The call of the tensor program `gvar` on tensors; outputs, of type `out_ty`, are allocated and are its result."""
    form = out_ty if out_sinfo is None else out_sinfo
    out = [_tensor(f) for f in (form if isinstance(form, list | tuple) else _fields(form))]
    dims = tir_vars.dims if isinstance(tir_vars, Shape) else tuple(map(as_dim, tir_vars or ()))
    if isinstance(args, Expr) and isinstance(args.ty, TupleType):
        call = call_program(gvar, [], out, dims)
        return Call(call.op, (gvar, args), call.attrs, ty=call.ty)
    given: Sequence[Any] = args if isinstance(args, list | tuple) else (args,)
    return call_program(gvar, [as_expr(a) for a in given], out, dims)


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
