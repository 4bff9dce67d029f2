"""Calls of tensor programs from the graph: `R.call_tir(cls.kernel, (x, w), out_sinfo=R.Tensor((n, 4), "float32"))`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from legato.arith.expr import Expr as Dim
from legato.base.errors import TypeCheckError
from legato.ir.call_tir import call_tir
from legato.ir.expr import Expr, GlobalVar, Shape
from legato.ir.types import TensorType, TupleType, Type
from legato.tir import scalars
from legato.tir.buffer import Buffer
from legato.tir.stmt import Func

if TYPE_CHECKING:
    from legato.script.modules.graph import GraphReader

__all__ = ["call_tir_form", "call_tir_inplace_form"]


def call_tir_form(
    reader: GraphReader, kernel: Any, args: Any, out_sinfo: Any = None, tir_vars: Any = None, *, out_ty: Any = None,
    operators: Any = (),
) -> Expr:  # fmt: skip
    """The call of `kernel` on the tensors `args`; outputs of type `out_sinfo` are allocated, and are its result.

    Dims among `args`, or `tir_vars`, are the values of its first index parameters.
    """
    out = _out(reader, out_ty if out_sinfo is None else out_sinfo)
    return _called(reader, kernel, args, out, tir_vars, operators)


def call_tir_inplace_form(
    reader: GraphReader, kernel: Any, args: Any, inplace_indices: Any, out_sinfo: Any = None, tir_vars: Any = None, *,
    out_ty: Any = None, operators: Any = (),
) -> Expr:  # fmt: skip
    """The call of a `kernel` that stores to some of the tensors `args`: output number i is what it makes of argument
    number `inplace_indices[i]`, or memory of its own where that is -1. The arguments themselves stay as they are."""
    places = tuple(inplace_indices) if isinstance(inplace_indices, tuple | list) else (inplace_indices,)
    out = _out(reader, out_ty if out_sinfo is None else out_sinfo)
    if not all(type(p) is int for p in places):
        raise TypeCheckError(f"inplace_indices are numbers of arguments, or -1; got {inplace_indices!r}")
    if len(out) != len(places):
        raise TypeCheckError(f"{len(out)} results for {len(places)} of inplace_indices")
    return _called(reader, kernel, args, out, tir_vars, operators, places)


def _program(reader: GraphReader, kernel: Any) -> Func:
    found = reader.members.programs.get(kernel) if isinstance(kernel, GlobalVar) else None
    if found is None:
        what = f"@{kernel.name}" if isinstance(kernel, GlobalVar) else reader.described(kernel)
        raise TypeCheckError(f"{what} is no tensor program of the module", hint="cls.name")
    return found


def _called(
    reader: GraphReader, kernel: Any, args: Any, out: list[TensorType], tir_vars: Any, operators: Any,
    places: tuple[int, ...] = (),
) -> Expr:  # fmt: skip
    program, span = _program(reader, kernel), reader.b.span
    if isinstance(args, Expr) and isinstance(args.ty, TupleType):  # the tuple of them
        call = call_tir(kernel, [], out, _dims(tir_vars), operators=operators, inplace=places, span=span)
        return call.with_children((call.op, kernel, args))
    tensors, dims = _parted(program, args, len(out) - sum(p >= 0 for p in places))
    given, dims = [reader.expr(a) for a in tensors], [*dims, *_dims(tir_vars)]
    return call_tir(kernel, given, out, dims, operators=operators, inplace=places, span=span)


def _parted(program: Func, args: Any, outputs: int) -> tuple[list[Any], list[Dim]]:
    """The tensors and the dims of what a call gives. An integer is a dim where the program has a tensor less."""
    given = list(args) if isinstance(args, tuple | list) else [args]
    inputs = sum(isinstance(p, Buffer) for p in program.params) - outputs
    kinds: Any = (Dim, int) if sum(not isinstance(a, Dim) for a in given) > inputs else Dim
    dims = [scalars.as_index(a, "an argument of the call") for a in given if isinstance(a, kinds)]
    return [a for a in given if not isinstance(a, kinds)], dims


def _out(reader: GraphReader, form: Any) -> list[TensorType]:
    if form is None:
        raise TypeCheckError("the call is not told what it gives", hint='out_sinfo=R.Tensor((n, 4), "float32")')
    forms = form if isinstance(form, tuple | list) else (form,)
    return [_tensor(reader.type(f)) for f in forms]


def _tensor(ty: Type) -> TensorType:
    if not isinstance(ty, TensorType):
        raise TypeCheckError("outputs of a tensor program are tensors of known rank and dtype")
    return ty


def _dims(given: Any) -> list[Dim]:
    values = () if given is None else given.dims if isinstance(given, Shape) else given
    values = values if isinstance(values, tuple | list) else (values,)
    return [scalars.as_index(d, "an argument of tir_vars") for d in values]
