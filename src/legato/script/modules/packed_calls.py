"""Calls of what is outside of the program: `R.call_packed("f", x, sinfo_args=R.Tensor((n, 4), "float32"))` and its kin.

A dim that is new in what a function gives, and None, are extents that it decides; the name is the dim's from there on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError
from legato.ir.expr import Expr
from legato.ir.kinds import MAX_RANK
from legato.ir.op import Op
from legato.ir.packed import ASSERT_OP, CALL_DPS_PACKED, CALL_PACKED, CALL_PURE_PACKED, PRINT, MessageAttrs, PackedAttrs
from legato.ir.types import ShapeType, TensorType, TupleType, Type
from legato.script.modules.types import PrimForm, TensorForm, TupleForm

if TYPE_CHECKING:
    from legato.script.modules.graph import GraphReader

__all__ = ["assert_form", "call_dps_packed_form", "call_packed_form", "call_pure_packed_form", "print_form"]


def call_packed_form(reader: GraphReader, func: Any, *args: Any, sinfo_args: Any = None, ty_args: Any = None) -> Expr:
    """The call of the packed function `func`, which may have effects; it gives tensors of types `sinfo_args`."""
    return _call(reader, CALL_PACKED, func, args, sinfo_args if ty_args is None else ty_args)


def call_pure_packed_form(
    reader: GraphReader, func: Any, *args: Any, sinfo_args: Any = None, ty_args: Any = None
) -> Expr:
    """The same of a function without effects."""
    return _call(reader, CALL_PURE_PACKED, func, args, sinfo_args if ty_args is None else ty_args)


def call_dps_packed_form(
    reader: GraphReader, func: Any, args: Any, out_sinfo: Any = None, *, out_ty: Any = None
) -> Expr:
    """The same of a function that fills tensors of types `out_sinfo`, which it is given behind its arguments."""
    given = args if isinstance(args, tuple | list) else (args,)
    out = out_sinfo if out_ty is None else out_ty
    if out is None:
        raise TypeCheckError("the call is not told what it gives", hint='out_sinfo=R.Tensor((n, 4), "float32")')
    return _call(reader, CALL_DPS_PACKED, func, given, out)


def print_form(reader: GraphReader, *values: Any, format: str = "") -> Expr:
    """Prints values."""
    return _message(reader, PRINT, (), values, format)


def assert_form(reader: GraphReader, condition: Any, *values: Any, format: str = "") -> Expr:
    """Ends the program, with a message that shows values, unless the condition holds."""
    return _message(reader, ASSERT_OP, (reader.expr(condition),), values, format)


def _message(reader: GraphReader, op: Op, args: Sequence[Expr], values: Sequence[Any], format: Any) -> Expr:
    if not isinstance(format, str):
        raise TypeCheckError(f"the format is {reader.described(format)}, wanted a string")
    shown = reader.b.tuple_([reader.expr(v) for v in values])
    return reader.b.call_op(op, (*args, shown), MessageAttrs(format))


def _call(reader: GraphReader, op: Op, func: Any, args: Sequence[Any], given: Any) -> Expr:
    if not isinstance(func, str):
        raise TypeCheckError(
            f"{reader.described(func)} is no name of a packed function", hint='a string: "my.function"'
        )
    types = [_tensor(reader, form) for form in _forms(given)]
    shapes = [tuple(_known(reader, d) for d in shape) for shape, _ in types]
    attrs = PackedAttrs(func, tuple(shapes), tuple(kind for _, kind in types))
    call: Expr = reader.b.call_op(op, (reader.b.tuple_([reader.expr(a) for a in args]),), attrs)
    if any(d is not None and _known(reader, d) is None for shape, _ in types for d in shape):
        call = reader.b.match_cast(call, _named(types))
    is_one_of_tuple = isinstance(given, TupleForm) and len(types) == 1
    return reader.b.tuple_([call]) if is_one_of_tuple else call


def _forms(given: Any) -> Iterator[Any]:
    match given:
        case None:
            return
        case TupleForm(fields=fields):
            yield from fields
        case tuple() | list() if len(given) != 1:
            yield from given
        case tuple() | list():
            yield from _forms(given[0])
        case _:
            yield given


def _tensor(reader: GraphReader, form: Any) -> tuple[tuple[Dim | None, ...], dt.DType]:
    """The extents and dtype of a tensor, None for an extent that nothing is said of."""
    match form:
        case TensorForm(shape=tuple() as shape, dtype=dt.DType() as kind):
            return tuple(None if d is None else reader.dim(d) for d in shape), kind
        case TensorForm(shape=None, dtype=dt.DType() as kind, ndim=int() as rank) if 0 <= rank <= MAX_RANK:
            return (None,) * rank, kind
        case PrimForm(dtype=kind):
            return (), kind
    raise TypeCheckError(
        "a packed function gives tensors of known rank and dtype", hint='sinfo_args=R.Tensor((n, 4), "float32")'
    )


def _known(reader: GraphReader, d: Dim | None) -> Dim | None:
    """A dim that has a value before the call; None for others."""
    return None if d is None or reader.b.has_new_dims(ShapeType((d,))) else d


def _named(types: Sequence[tuple[tuple[Dim | None, ...], dt.DType]]) -> Type:
    found = [
        TensorType(tuple(DimVar("d", dt.index, 0) if d is None else d for d in shape), kind) for shape, kind in types
    ]
    return found[0] if len(found) == 1 else TupleType(tuple(found))
