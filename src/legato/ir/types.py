"""Types of the language. All compare by value; variables by identity.

    type = TensorType(shape, dtype)             shape: dims; a scalar is rank 0
         | TupleType(fields)
         | FuncType(params, ret, type_params)   type_params: TypeVar | Dim variables that each call instantiates afresh
         | RefType(value)
         | TypeVar(name, kind)                  bound by a function or a data type
         | GlobalTypeVar(name)                  names a data type of the module
         | TypeCall(func, args)                 List[Tensor[(n,), float32]]
         | ShapeType(dims)                      the type of a Shape expression; dims None: only the rank is unknown too
         | HoleType()                           `_` in text: to be inferred; never left after inference
    definition: TypeData(header, type_vars, constructors)

A dim is an `arith` expression of dtype index: a literal, a variable, or arithmetic over them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from legato.arith.expr import Const, Expr, Var, const
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.dtype import dtype as as_dtype
from legato.base.errors import TypeCheckError
from legato.base.immutable import Immutable

if TYPE_CHECKING:
    from legato.ir.expr import Constructor

__all__ = [
    "UNIT",
    "Dim",
    "FuncType",
    "GlobalTypeVar",
    "HoleType",
    "Kind",
    "RefType",
    "ShapeType",
    "TensorType",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeData",
    "TypeVar",
    "dims",
    "scalar_type",
    "tensor_type",
]  # fmt: skip

Dim = Expr


class Kind(enum.Enum):
    """What a type variable stands for."""

    TYPE = "Type"
    SHAPE_VAR = "ShapeVar"
    BASE_TYPE = "BaseType"
    CONSTRAINT = "Constraint"
    ADT_HANDLE = "AdtHandle"
    TYPE_DATA = "TypeData"


class Type(Immutable):
    """A type; see the module's grammar."""

    __slots__ = ()

    def children(self) -> tuple[Type, ...]:
        return ()

    def with_children(self, children: tuple[Type, ...]) -> Type:
        return self

    def __str__(self) -> str:
        from legato.ir.printer import show_type  # the printer walks the classes defined here

        return show_type(self)


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """An array of `dtype` with one dim per dimension."""

    shape: tuple[Dim, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def ndim(self) -> int:
        """`rank`, as Relax calls it."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """True if every dim is a literal."""
        return all(isinstance(d, Const) for d in self.shape)

    def static_shape(self) -> tuple[int, ...]:
        """The dims as ints; only for static types."""
        return tuple(int(d.value) for d in self.shape if isinstance(d, Const))

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The dims as ints; TypeCheckError where one is not a literal."""
        if not self.is_static:
            raise TypeCheckError(f"{self} has dims that are not numbers")
        return self.static_shape()


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """A tuple; `()` is the unit type."""

    fields: tuple[Type, ...]

    def children(self) -> tuple[Type, ...]:
        return self.fields

    def with_children(self, children: tuple[Type, ...]) -> Type:
        return TupleType(children)


@dataclass(frozen=True, slots=True)
class FuncType(Type):
    """A function; polymorphic in `type_params` (TypeVars and dim variables)."""

    params: tuple[Type, ...]
    ret: Type
    type_params: tuple[TypeVar | Var, ...] = ()

    def children(self) -> tuple[Type, ...]:
        return (*self.params, self.ret)

    def with_children(self, children: tuple[Type, ...]) -> Type:
        return FuncType(children[:-1], children[-1], self.type_params)

    @property
    def arg_types(self) -> tuple[Type, ...]:
        """`params`, as Relay calls them."""
        return self.params

    @property
    def ret_type(self) -> Type:
        """`ret`, as Relay calls it."""
        return self.ret

    @property
    def type_constraints(self) -> tuple[()]:
        """None: relations are kept in the records of operators, not in types."""
        return ()


@dataclass(frozen=True, slots=True)
class RefType(Type):
    """A mutable cell."""

    value: Type

    def children(self) -> tuple[Type, ...]:
        return (self.value,)

    def with_children(self, children: tuple[Type, ...]) -> Type:
        return RefType(children[0])


@dataclass(frozen=True, slots=True, eq=False)
class TypeVar(Type):
    """A type variable, compared by identity."""

    name: str
    kind: Kind = Kind.TYPE

    @property
    def name_hint(self) -> str:
        """`name`, as Relay calls it."""
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class GlobalTypeVar(Type):
    """The name of a data type of the module, compared by identity."""

    name: str
    kind: Kind = Kind.ADT_HANDLE

    def __call__(self, *args: Type) -> Type:
        """This data type applied to types; without any, itself."""
        return TypeCall(self, args) if args else self

    @property
    def name_hint(self) -> str:
        """`name`, as Relay calls it."""
        return self.name


@dataclass(frozen=True, slots=True)
class TypeCall(Type):
    """A data type applied to arguments."""

    func: Type
    args: tuple[Type, ...]

    def children(self) -> tuple[Type, ...]:
        return (self.func, *self.args)

    def with_children(self, children: tuple[Type, ...]) -> Type:
        return TypeCall(children[0], children[1:])


@dataclass(frozen=True, slots=True)
class ShapeType(Type):
    """The type of a shape value; `dims` is None where not even the rank is known."""

    dims: tuple[Dim, ...] | None = None

    @property
    def values(self) -> tuple[Dim, ...] | None:
        """`dims`, as Relax calls them."""
        return self.dims

    @property
    def ndim(self) -> int:
        """Number of dims, -1 where it is not known; as Relax calls it."""
        return -1 if self.dims is None else len(self.dims)


@dataclass(frozen=True, slots=True)
class HoleType(Type):
    """A type to be inferred, written `_`."""


@dataclass(frozen=True, slots=True, eq=False)
class TypeData(Type):
    """The definition of an algebraic data type. `extern` types have no constructors."""

    header: GlobalTypeVar
    type_vars: tuple[TypeVar, ...]
    constructors: tuple[Constructor, ...]
    extern: bool = False


UNIT = TupleType(())


def dims(shape: Iterable[Dim | int]) -> tuple[Dim, ...]:
    """Integers and expressions as dims."""
    return tuple(d if isinstance(d, Expr) else const(d) for d in shape)


def tensor_type(shape: Iterable[Dim | int], dtype: DType | str = "float32") -> TensorType:
    """A TensorType from ints, dims and a dtype name."""
    return TensorType(dims(shape), as_dtype(dtype))


def scalar_type(dtype: DType | str) -> TensorType:
    """The rank-0 tensor type of `dtype`."""
    return TensorType((), as_dtype(dtype))


def walk(ty: Type) -> Iterator[Type]:
    """`ty` and every type inside it (types nest shallowly; written programs bound the depth)."""
    yield ty
    for child in ty.children():
        yield from walk(child)


def free_type_vars(ty: Type) -> Iterator[TypeVar]:
    """The type variables in `ty` that no function type in it binds."""
    todo: list[tuple[Type, frozenset[object]]] = [(ty, frozenset())]
    while todo:
        part, bound = todo.pop()
        if isinstance(part, TypeVar) and part not in bound:
            yield part
        if isinstance(part, FuncType) and part.type_params:
            bound = bound.union(part.type_params)
        todo += [(kid, bound) for kid in reversed(part.children())]


def map_dims(ty: Type, f: Callable[[Dim], Dim]) -> Type:
    """`ty` with every dim replaced by `f(dim)`."""
    if isinstance(ty, TensorType):
        return TensorType(tuple(f(d) for d in ty.shape), ty.dtype)
    if isinstance(ty, ShapeType):
        return ty if ty.dims is None else ShapeType(tuple(f(d) for d in ty.dims))
    kids = ty.children()
    return ty.with_children(tuple(map_dims(k, f) for k in kids)) if kids else ty
