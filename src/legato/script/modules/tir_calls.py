"""Calls of tensor programs from the graph: `R.call_tir(cls.kernel, (x, w), out_sinfo=R.Tensor((n, 4), "float32"))`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

__all__ = ["call_tir_form", "call_tir_inplace_form", "in_place", "out_types", "stated"]


def call_tir_form(
    reader: GraphReader, kernel: Any, args: Any, out_sinfo: Any = None, tir_vars: Any = None, *, out_ty: Any = None,
    operators: Any = (),
) -> Expr:  # fmt: skip
    """The call of `kernel` on the tensors `args`; outputs of type `out_sinfo` are allocated, and are its result.

    Dims among `args`, or `tir_vars`, are the values of its first index parameters.
    """
    out = out_types(out_ty if out_sinfo is None else out_sinfo, reader.type)
    return _called(reader, kernel, args, out, tir_vars, operators)


def call_tir_inplace_form(
    reader: GraphReader, kernel: Any, args: Any, inplace_indices: Any, out_sinfo: Any = None, tir_vars: Any = None, *,
    out_ty: Any = None, operators: Any = (),
) -> Expr:  # fmt: skip
    """The call of a `kernel` that stores to some of the tensors `args`: output number i is what it makes of argument
    number `inplace_indices[i]`, or memory of its own where that is -1. The arguments themselves stay as they are."""
    out = out_types(out_ty if out_sinfo is None else out_sinfo, reader.type)
    return _called(reader, kernel, args, out, tir_vars, operators, in_place(inplace_indices, out))


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
        return call_tir(kernel, args, out, _dims(tir_vars), operators=operators, inplace=places, span=span)
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


def _dims(given: Any) -> list[Dim]:
    return [scalars.as_index(d, "an argument of tir_vars") for d in stated(given)]


# ---------------------------------------------------------------------- what a call says, whoever writes it


def out_types(form: Any, type_of: Callable[[Any], Type]) -> list[TensorType]:
    """The types of the results: `form` is one, several, or a tuple of them. TypeCheckError for others than tensors."""
    if form is None:
        raise TypeCheckError("the call is not told what it gives", hint='out_sinfo=R.Tensor((n, 4), "float32")')
    listed = [type_of(f) for f in form] if isinstance(form, tuple | list) else [type_of(form)]
    fields = listed[0].fields if len(listed) == 1 and isinstance(listed[0], TupleType) else listed
    found = [ty for ty in fields if isinstance(ty, TensorType)]
    if len(found) != len(fields):
        raise TypeCheckError("outputs of a tensor program are tensors of known rank and dtype")
    return found


def in_place(inplace_indices: Any, out: Sequence[TensorType]) -> tuple[int, ...]:
    """The number of the argument that each result begins as. TypeCheckError where they are not as many as results."""
    places = tuple(inplace_indices) if isinstance(inplace_indices, tuple | list) else (inplace_indices,)
    if not all(type(p) is int for p in places):
        raise TypeCheckError(f"inplace_indices are numbers of arguments, or -1; got {inplace_indices!r}")
    if len(out) != len(places):
        raise TypeCheckError(f"{len(out)} results for {len(places)} of inplace_indices")
    return places


def stated(tir_vars: Any) -> Sequence[Any]:
    """The dims of `tir_vars`: a shape, a list of dims, one, or none."""
    values = () if tir_vars is None else tir_vars.dims if isinstance(tir_vars, Shape) else tir_vars
    return values if isinstance(values, tuple | list) else (values,)
