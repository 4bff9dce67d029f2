"""Types, under the names and with the constructors that Relay's users know.

Differences: dims are integers, variables and arithmetic over them. `Any()` is a dim of its own, not a value that equals
everything, so equalities are never forgotten; `ShapeVar` makes a dim variable; relations belong to the records of
operators, so a FuncType has no constraints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any as AnyValue
from typing import Final, NoReturn

from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.arith.simplify import simplify
from legato.base.dtype import DType
from legato.base.errors import TypeCheckError
from legato.ir import expr as ir
from legato.ir import types as it
from legato.ir.types import GlobalTypeVar, RefType, Type, TypeVar
from legato.ir.types import Kind as TypeKindValue
from legato.relay._names import Named

__all__ = [
    "Any",
    "FuncType",
    "GlobalTypeVar",
    "IncompleteType",
    "Kind",
    "RefType",
    "RelayRefType",
    "ShapeVar",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeConstraint",
    "TypeData",
    "TypeKind",
    "TypeRelation",
    "TypeVar",
    "scalar_type",
]  # fmt: skip

RelayRefType = RefType


class TypeKind:
    """The kinds of types: `check_kind(t) == TypeKind.Type`."""

    Type: Final = TypeKindValue.TYPE
    ShapeVar: Final = TypeKindValue.SHAPE_VAR
    BaseType: Final = TypeKindValue.BASE_TYPE
    Constraint: Final = TypeKindValue.CONSTRAINT
    AdtHandle: Final = TypeKindValue.ADT_HANDLE
    TypeData: Final = TypeKindValue.TYPE_DATA


Kind = TypeKind


class NoTypeRelation:
    """What no type is an instance of."""


class TensorType(it.TensorType, metaclass=Named):
    """`TensorType(shape, dtype="float32")`: dims are ints, dim variables (`ShapeVar`), arithmetic, or `Any()`.

    Arithmetic is simplified: types of `n + n` and `2 * n` are equal.
    """

    @staticmethod
    def build(shape: Iterable[AnyValue] | int = (), dtype: DType | str = "float32") -> it.TensorType:
        listed = (shape,) if isinstance(shape, int | DimExpr) else tuple(shape)
        return it.tensor_type([simplify(d) if isinstance(d, DimExpr) else _extent(d) for d in listed], dtype)


def _extent(value: AnyValue) -> int:
    """An extent that is written as a number."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError) as error:
        hint = 'use an int, relay.ShapeVar("n"), or relay.Any()'
        raise TypeCheckError(f"{value!r} is not a dim", hint=hint) from error
    if number < 0 or number != value:
        raise TypeCheckError(f"{value!r} is not a dim", hint="extents are whole numbers from 0 on")
    return number


class TupleType(it.TupleType, metaclass=Named):
    """`TupleType([a, b])`."""

    @staticmethod
    def build(fields: Iterable[Type]) -> it.TupleType:
        return it.TupleType(tuple(fields))


class FuncType(it.FuncType, metaclass=Named):
    """`FuncType(arg_types, ret_type, type_params=None, type_constraints=None)`; there are no constraints."""

    @staticmethod
    def build(
        arg_types: Iterable[Type],
        ret_type: Type,
        type_params: Iterable[TypeVar | DimVar] | None = None,
        type_constraints: Sequence[object] | None = None,
    ) -> it.FuncType:
        if type_constraints:
            raise TypeCheckError("function types have no constraints", hint="the records of operators have relations")
        return it.FuncType(tuple(arg_types), ret_type, tuple(type_params or ()))


class TypeCall(it.TypeCall, metaclass=Named):
    """`TypeCall(func, [args])`: a data type applied to arguments; to none, the data type itself."""

    @staticmethod
    def build(func: Type, args: Iterable[Type]) -> Type:
        listed = tuple(args)
        return it.TypeCall(func, listed) if listed else func


class TypeData(it.TypeData, metaclass=Named):
    """`TypeData(header, type_vars, constructors)`: the definition of a data type, for `mod[header] = …`.

    Its constructors, made before it, get their positions here.
    """

    @staticmethod
    def build(
        header: GlobalTypeVar, type_vars: Iterable[TypeVar], constructors: Iterable[ir.Constructor]
    ) -> it.TypeData:
        listed = tuple(constructors)
        for tag, constructor in enumerate(listed):
            if constructor.belongs_to is not header:
                raise TypeCheckError(f"constructor {constructor.name} belongs to another type than {header.name}")
            # Frozen from here on: nobody can have asked for its position before its type was defined.
            object.__setattr__(constructor, "tag", tag)
        return it.TypeData(header, tuple(type_vars), listed)


class IncompleteType(it.HoleType, metaclass=Named):
    """`IncompleteType()`: a type to be inferred, `_` in text."""

    @staticmethod
    def build(kind: TypeKindValue = TypeKind.Type) -> it.HoleType:
        if kind is not TypeKind.Type:
            raise TypeCheckError("only types can be left to inference, not dims", hint="write relay.Any() for a dim")
        return it.HoleType()


class TypeRelation(NoTypeRelation, metaclass=Named):
    """Relations are in the records of operators (`Op.type_rel`), not in types: nothing is one, and none can be made."""

    @staticmethod
    def build(*args: object, **keywords: object) -> NoReturn:
        raise TypeCheckError("type relations are not types here", hint="write one as the type_rel of an operator")


TypeConstraint = TypeRelation


def scalar_type(dtype: DType | str) -> it.TensorType:
    """The type of a rank-0 tensor of `dtype`."""
    return it.scalar_type(dtype)


def ShapeVar(name: str) -> DimVar:
    """A dim variable. (In Relay a type variable of kind ShapeVar; here dims have a language of their own.)"""
    return fresh(name)


class Any(DimVar, metaclass=Named):
    """`Any()`: a dim of which nothing is known but that it is itself; two of them are two dims.

    `isinstance(d, Any)` holds for every dim variable: those are the dims that are not known before the program runs.
    """

    @staticmethod
    def build() -> DimVar:
        return fresh("any")
