"""Calls of what is outside of the program: packed functions, by name, and the printing and testing of values.

call_packed(%x, %y, name="f", shapes=[[n, 4]], dtypes=[float32])     one tensor; of several, a tuple; of none, ()

A packed function is given when a program is compiled, loaded or interpreted. What it gives is as the call says, which
is checked; an extent None is whatever comes. `call_packed` may have effects, as have `print` and `assert_op`: they
happen in the program's order, once each. `call_pure_packed` has none; nor has `call_dps_packed`, whose function is
given tensors of zeros behind its arguments, which it fills.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from legato.arith.expr import Const, const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.kinds import MAX_RANK
from legato.ir.op import Op, Relation
from legato.ir.types import (
    UNIT,
    Dim,
    FuncType,
    GlobalTypeVar,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    scalar_type,
)
from legato.runtime.messages import format_fault
from legato.runtime.packed import DIM, PackedType, Parts, Slot

__all__ = ["ASSERT_OP", "CALL_DPS_PACKED", "CALL_PACKED", "CALL_PURE_PACKED", "OUTSIDE", "PACKED", "PRINT",
           "MessageAttrs", "PackedAttrs", "packed_type", "parts"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class PackedAttrs(Attrs):
    """name: of the function; shapes and dtypes: of the tensors that it gives, None for an extent that it decides."""

    name: str
    shapes: tuple[tuple[Dim | int | None, ...], ...] = ()
    dtypes: tuple[DType, ...] = ()

    def __post_init__(self) -> None:
        plain = tuple([tuple([int(d.value) if isinstance(d, Const) else d for d in shape]) for shape in self.shapes])
        object.__setattr__(self, "shapes", plain)

    @property
    def dims(self) -> tuple[tuple[Dim | None, ...], ...]:
        """The shapes, of dims."""
        return tuple([tuple([const(d) if isinstance(d, int) else d for d in shape]) for shape in self.shapes])


@dataclass(frozen=True, slots=True)
class MessageAttrs(Attrs):
    """format: text with a field `{}` for each value; empty: the values side by side."""

    format: str = ""


def _result(rel: Relation, args: Type, attrs: PackedAttrs, *, fills: bool = False) -> Type | None:
    fault = _attrs_fault(attrs, fills)
    if fault is not None:
        raise rel.fail(fault)
    if not _is_known(rel, args):
        return None
    tensors = tuple(
        TensorType(tuple(rel.fresh("d") if d is None else d for d in shape), dtype)
        for shape, dtype in zip(attrs.dims, attrs.dtypes, strict=True)
    )
    return tensors[0] if len(tensors) == 1 else TupleType(tensors)


def _attrs_fault(attrs: PackedAttrs, fills: bool) -> str | None:
    if not attrs.name:
        return "a packed function has a name"
    if len(attrs.shapes) != len(attrs.dtypes):
        return f"{len(attrs.shapes)} shapes for {len(attrs.dtypes)} dtypes"
    if any(len(shape) > MAX_RANK for shape in attrs.shapes):
        return f"a tensor has at most {MAX_RANK} dims"
    if any(d is dt.handle or d is dt.index for d in attrs.dtypes):
        return "a tensor has no such dtype"
    dims = [d for shape in attrs.shapes for d in shape]
    negative = [d for d in dims if isinstance(d, int) and d < 0]
    if negative:
        return f"an extent of {attrs.name!r} is {negative[0]}, wanted 0 or more"
    return "what is to be filled has extents that are known" if fills and None in dims else None


def _is_known(rel: Relation, ty: Type) -> bool:
    """Whether the type of arguments is known; an error where one is none that may be passed."""
    if isinstance(ty, TensorType):
        raise rel.fail(f"the arguments are a tuple, got {ty}", hint="one argument is written (%x,)")
    todo, known = [ty], True
    while todo:
        match todo.pop():
            case TupleType(fields):
                todo += fields
            case TensorType():
                pass
            case ShapeType(dims) if dims is not None:
                pass
            case ShapeType() | FuncType() | RefType() | TypeVar() | TypeCall() | GlobalTypeVar() as other:
                raise rel.fail(f"only tensors, shapes and tuples of them are passed, got {other}")
            case _:
                known = False
    return known


def _message(rel: Relation, values: Type, attrs: MessageAttrs) -> Type | None:
    if not _is_known(rel, values):
        return None
    assert isinstance(values, TupleType)
    fault = format_fault(attrs.format, len(values.fields))
    if fault is not None:
        raise rel.fail(fault)
    return UNIT


def _assertion(rel: Relation, condition: Type, values: Type, attrs: MessageAttrs) -> Type | None:
    rel.unify(condition, scalar_type(dt.bool_), "the condition")
    return _message(rel, values, attrs)


def _reference(*args: Any) -> Any:
    raise InternalError("what calls something outside of the program is evaluated by the interpreter itself")


def packed_type(call: Call) -> PackedType:
    """What a call of a packed function passes, and what it is to give."""
    attrs = call.attrs
    assert isinstance(attrs, PackedAttrs)
    passed = parts(call.args[0].ty)
    results = tuple(Slot(str(t), tuple(map(_extent, s))) for s, t in zip(attrs.dims, attrs.dtypes, strict=True))
    return PackedType(passed if isinstance(passed, tuple) else (passed,), results)


def parts(ty: Type | None) -> Parts:
    """The tensors and dims of what is passed, of a type that may be."""
    match ty:
        case TupleType(fields):
            return tuple(map(parts, fields))
        case ShapeType(dims) if dims is not None:
            return tuple(Slot(DIM, (_extent(d),)) for d in dims)
        case TensorType(shape, dtype):
            return Slot(str(dtype), tuple(map(_extent, shape)))
    raise InternalError(f"a value of type {ty} is passed outside")


def _extent(d: Dim | None) -> int | str | None:
    return int(d.value) if isinstance(d, Const) else None if d is None else str(d)


_packed = partial(Op, args=("*args",), attrs=PackedAttrs, reference=_reference)

CALL_PACKED: Final = _packed(
    name="call_packed", type_rel=_result, stateful=True, doc="Calls a packed function, which may have effects."
)
CALL_PURE_PACKED: Final = _packed(
    name="call_pure_packed", type_rel=_result, doc="Calls a packed function without effects."
)
CALL_DPS_PACKED: Final = _packed(
    name="call_dps_packed",
    type_rel=partial(_result, fills=True),
    doc="Calls a packed function without effects that fills tensors: those behind its arguments.",
)
PRINT: Final = Op(
    name="print",
    args=("*values",),
    attrs=MessageAttrs,
    type_rel=_message,
    reference=_reference,
    stateful=True,
    strings=True,
    doc="Prints values.",
)
ASSERT_OP: Final = Op(
    name="assert_op",
    args=("condition", "*values"),
    attrs=MessageAttrs,
    type_rel=_assertion,
    reference=_reference,
    stateful=True,
    strings=True,
    doc="Ends the program with an error, which shows values, unless the condition holds.",
)
PACKED: Final = (CALL_PACKED, CALL_PURE_PACKED, CALL_DPS_PACKED)
OUTSIDE: Final = (*PACKED, PRINT, ASSERT_OP)
