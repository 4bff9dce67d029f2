"""Annotations of graph functions: what `R.Tensor(…)` and its kin say, and the types that they stand for.

R.Tensor(("n", 784), "float32")   R.Tensor("float32", ndim=2)   R.Tuple(…)   R.Shape(["n"])   R.Prim("int64")
R.Callable((…), …)   R.Ref(…)   R.TypeVar("a")   R.Data("List", (…))
R.Object, R.Any, R.Tensor() and what else leaves something open: inferred
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any

from legato.arith.expr import Expr, Var
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.ir.kinds import MAX_RANK
from legato.ir.types import (
    FuncType,
    HoleType,
    Kind,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    scalar_type,
)

__all__ = ["AnyForm", "CallableForm", "DataForm", "DataTypeForm", "PrimForm", "RefForm", "ShapeForm", "TensorForm",
           "TupleForm", "TypeVarForm", "type_of", "type_parameters", "unnamed"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorForm:
    """`R.Tensor(shape, dtype, ndim)`; what is None is not told."""

    shape: tuple[Any, ...] | None
    dtype: dt.DType | None
    ndim: int | None = None


@dataclass(frozen=True, slots=True)
class TupleForm:
    """`R.Tuple(…)`."""

    fields: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ShapeForm:
    """`R.Shape([…])`, `R.Shape(ndim=…)`."""

    dims: tuple[Any, ...] | None
    ndim: int | None = None


@dataclass(frozen=True, slots=True)
class PrimForm:
    """`R.Prim("int64")`: a scalar."""

    dtype: dt.DType


@dataclass(frozen=True, slots=True)
class CallableForm:
    """`R.Callable((params), result)`."""

    params: tuple[Any, ...]
    ret: Any
    type_params: tuple[str | TypeVarForm, ...] = ()


@dataclass(frozen=True, slots=True)
class RefForm:
    """`R.Ref(value)`: a cell."""

    value: Any


@dataclass(frozen=True, slots=True)
class TypeVarForm:
    """`R.TypeVar("a")`: a type that each call chooses."""

    name: str
    kind: Kind = Kind.TYPE


@dataclass(frozen=True, slots=True)
class DataForm:
    """`R.Data("List", (R.TypeVar("a"),))`: a data type of the module; args: None where it takes none."""

    name: str
    args: tuple[Any, ...] | None = None


@dataclass(frozen=True, slots=True)
class DataTypeForm:
    """`R.data_type({"Nil": (), …})`: the definition of a data type: types of what its constructors hold, by name.

    name, names: what the type and constructors are called that have other names in the script.
    """

    constructors: Mapping[str, tuple[Any, ...]]
    type_params: tuple[TypeVarForm, ...] = ()
    name: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    bounds: Mapping[str, Any] = field(default_factory=dict)
    extern: bool = False


@dataclass(frozen=True, slots=True)
class AnyForm:
    """`R.Object`, `R.Any`: whatever is inferred."""

    def __call__(self) -> AnyForm:
        return self


def unnamed(form: TypeVarForm | DataForm) -> Type:
    """What names of types mean where there are none."""
    raise TypeCheckError(f"nothing says what type {form.name} is", hint="a data type is defined in a module's class")


def type_of(form: Any, dim: Callable[[Any], Expr], named: Callable[[TypeVarForm | DataForm], Type] = unnamed) -> Type:
    """The type that an annotation stands for; `dim` makes dims of what shapes are written with, `named` gives the type
    variable or the data type that has a name.

    HoleType, or one inside, where the annotation leaves something to inference. TypeCheckError for no annotation.
    """
    form = form() if isinstance(form, type(lambda: 0)) else form
    match form:
        case TensorForm():
            return _tensor(form, dim)
        case TupleForm(fields=fields):
            return TupleType(tuple(type_of(f, dim, named) for f in fields))
        case ShapeForm(dims=given, ndim=ndim):
            unknown = None if ndim is None else _anonymous(ndim)
            return ShapeType(unknown if given is None else tuple(map(dim, given)))
        case PrimForm(dtype=dtype):
            return scalar_type(dtype)
        case CallableForm(params=params, ret=ret, type_params=own):
            bound = type_parameters(own, dim, named)
            return FuncType(tuple(type_of(p, dim, named) for p in params), type_of(ret, dim, named), bound)
        case RefForm(value=value):
            return RefType(type_of(value, dim, named))
        case TypeVarForm() | DataForm(args=None):
            return named(form)
        case DataForm(args=tuple(args)):
            return TypeCall(named(form), tuple(type_of(a, dim, named) for a in args))
        case AnyForm():
            return HoleType()
        case Type():
            return form
    raise TypeCheckError(
        f"a {type(form).__name__} is no annotation", hint='R.Tensor(("n", 4), "float32"), R.Tuple(…), …'
    )


def _tensor(form: TensorForm, dim: Callable[[Any], Expr]) -> Type:
    if form.dtype is None or (form.shape is None and form.ndim is None):
        return HoleType()
    return TensorType(_anonymous(form.ndim) if form.shape is None else tuple(map(dim, form.shape)), form.dtype)


def type_parameters(
    forms: Iterable[str | TypeVarForm], dim: Callable[[Any], Expr], named: Callable[[TypeVarForm | DataForm], Type]
) -> tuple[TypeVar | Var, ...]:
    """Dims by their names, and type variables."""
    found = [dim(f) if isinstance(f, str) else type_of(f, dim, named) for f in forms]
    return tuple(p for p in found if isinstance(p, TypeVar | Var))


def _anonymous(ndim: int | None) -> tuple[Expr, ...]:
    """Dims that nothing names."""
    if not 0 <= (ndim or 0) <= MAX_RANK:
        raise TypeCheckError(f"a tensor of rank {ndim}, wanted 0 to {MAX_RANK}")
    return tuple(Var(f"d{i}", dt.index, 0) for i in range(ndim or 0))
