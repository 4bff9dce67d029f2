"""Types under Relax's names: those of newer versions (`TensorType`), and of older ones (`TensorStructInfo`).

A name's call makes one of the language's types, whose instances are all types of that kind, whoever made them. What a
type leaves open (a tensor of unknown rank, an object) is inferred.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from legato.arith.expr import Expr as DimExpr
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import TypeCheckError
from legato.ir import expr as ir
from legato.ir import types as it
from legato.ir.types import Type
from legato.relay._names import Named
from legato.script.modules.types import AnyForm, ShapeForm, TensorForm, type_of
from legato.te.scalar import plain

__all__ = ["AnyType", "FuncStructInfo", "FuncType", "ObjectStructInfo", "ObjectType", "PrimStructInfo", "PrimType",
           "ShapeStructInfo", "ShapeType", "StructInfo", "TensorStructInfo", "TensorType", "TupleStructInfo",
           "TupleType", "Type", "as_dim", "as_type"]  # fmt: skip

StructInfo = Type


class TensorType(it.TensorType, metaclass=Named):
    """`TensorType(shape=None, dtype="float32", ndim=-1)`: dims are integers, dim variables, and arithmetic over these.

    Of `ndim` dims alone, each is a dim of its own; a tensor of which not even the rank is known is inferred.
    """

    @staticmethod
    def build(shape: Any = None, dtype: DType | str | None = "float32", vdevice: object = None, ndim: int = -1) -> Type:
        if vdevice is not None:
            raise TypeCheckError("a program runs on one device", hint="leave out vdevice")
        known = None if dtype in (None, "") else dt.dtype(dtype)
        given = None if shape is None else _listed(shape.dims if isinstance(shape, ir.Shape) else shape, "dims")
        return type_of(TensorForm(given, known, None if ndim == -1 else ndim), as_dim)


class TupleType(it.TupleType, metaclass=Named):
    """`TupleType([a, b])`."""

    @staticmethod
    def build(fields: Iterable[Any]) -> it.TupleType:
        return it.TupleType(tuple(map(as_type, _listed(fields, "types"))))


class ShapeType(it.ShapeType, metaclass=Named):
    """`ShapeType([n, 4])`, `ShapeType(ndim=2)`: the type of dims as a value."""

    @staticmethod
    def build(values: Iterable[Any] | None = None, ndim: int = -1) -> Type:
        return type_of(
            ShapeForm(None if values is None else _listed(values, "dims"), None if ndim == -1 else ndim), as_dim
        )


class PrimType(it.TensorType, metaclass=Named):
    """`PrimType("int64")`: a scalar, which is a tensor of rank 0."""

    @staticmethod
    def build(dtype: DType | str | None = None, value: object = None) -> it.TensorType:
        if value is not None or dtype is None:
            raise TypeCheckError("the type of a scalar is its dtype", hint="ShapeType([n]) is the type of a known dim")
        return it.scalar_type(dtype)


class FuncType(it.FuncType, metaclass=Named):
    """`FuncType(params, ret)`; `FuncType.opaque_func()` is any function, to be inferred. (Purity is inferred.)"""

    @staticmethod
    def build(params: Iterable[Any], ret: Any, purity: bool = True) -> it.FuncType:
        return it.FuncType(tuple(map(as_type, _listed(params, "types"))), as_type(ret))

    @staticmethod
    def opaque_func(*_: object, **__: object) -> it.HoleType:
        """A function of which nothing is known: inferred."""
        return it.HoleType()


class ObjectType(it.HoleType, metaclass=Named):
    """`ObjectType()`: whatever is inferred."""

    @staticmethod
    def build() -> it.HoleType:
        return it.HoleType()


AnyType = ObjectStructInfo = ObjectType
TensorStructInfo, TupleStructInfo, ShapeStructInfo = TensorType, TupleType, ShapeType
PrimStructInfo, FuncStructInfo = PrimType, FuncType


def _listed(given: Any, what: str) -> tuple[Any, ...]:
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise TypeCheckError(f"got {given!r}, wanted a list of {what}")
    return tuple(given)


def as_type(annotation: Any) -> Type:
    """A type, or what `R.Tensor(…)` and its kin say, as a type. TypeCheckError for what is no annotation."""
    return type_of(annotation() if annotation is AnyForm else annotation, as_dim)


def as_dim(value: Any) -> DimExpr:
    """An integer, a dim, or a scalar of a tensor expression as a dim. TypeCheckError for anything else."""
    found = plain(value)
    if isinstance(found, DimExpr) and (found.dtype == dt.index or found.dtype.is_int):
        return simplify(found)
    if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
        return it.dims([found])[0]
    raise TypeCheckError(f"{value!r} is no dim", hint='an integer from 0 on, te.var("n"), or arithmetic over these')
