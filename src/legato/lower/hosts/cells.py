"""How values lie in objects: a constructor's fields, what a reference holds.

Tuples are flattened. A part that is an object, or a tensor of rank 1 or more (an object of its own), is a handle; all
handles come first. Scalars follow, unboxed, 8 bytes each. The dims that a constructor's fields have of their own, other
ones in every value, come last.
"""

from __future__ import annotations

from collections.abc import Mapping

from legato.arith.expr import Var
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import UnsupportedError
from legato.infer.replace import replace_vars
from legato.ir._dims import free_dims
from legato.ir.expr import Constructor
from legato.ir.types import (
    Dim,
    GlobalTypeVar,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    scalar_type,
)

__all__ = ["EXTENT", "WORD", "Cell", "constructor_cell", "data_type", "extents", "field_types", "is_object",
           "leaf_types", "leaf_values", "own_dims", "part_dtype", "rank_of", "ref_cell", "shape_dims"]  # fmt: skip

WORD = 8
EXTENT = scalar_type(dt.int64)  # of a dim in a shape that is a value


def shape_dims(ty: ShapeType) -> tuple[Dim, ...]:
    """The dims of a shape; UnsupportedError where its rank is not known."""
    if ty.dims is None:
        hint = "give its rank: R.Shape(ndim=2), or its dims by match_cast"
        raise UnsupportedError("a shape of unknown rank as a value in compiled code", hint=hint)
    return ty.dims


def rank_of(ty: ShapeType) -> int:
    """The length of a shape; UnsupportedError where it is not known."""
    return len(shape_dims(ty))


def extents(ty: Type) -> tuple[Dim, ...]:
    """The dims of the tensors and shapes in a value of type `ty`, those in objects aside."""
    match ty:
        case TupleType():
            return tuple(d for f in ty.fields for d in extents(f))
        case TensorType():
            return ty.shape
        case ShapeType():
            return ty.dims or ()
        case _:
            return ()


def is_object(ty: Type) -> bool:
    """True if a value of type `ty` is an object: of a data type, or a reference."""
    return isinstance(ty, GlobalTypeVar | TypeCall | RefType)


def leaf_types(ty: Type | None) -> tuple[Type, ...]:
    """The types of the parts of a value of type `ty`, tuples flattened; a shape is a tuple of its dims, in int64."""
    if isinstance(ty, TupleType):
        return tuple(t for f in ty.fields for t in leaf_types(f))
    if isinstance(ty, ShapeType):
        return (EXTENT,) * rank_of(ty)
    assert ty is not None
    return (ty,)


def leaf_values(ty: Type | None) -> tuple[Dim | None, ...]:
    """What each part of a value of type `ty` is known to be: the dims of shapes, None for others."""
    if isinstance(ty, TupleType):
        return tuple(d for f in ty.fields for d in leaf_values(f))
    return shape_dims(ty) if isinstance(ty, ShapeType) else (None,)


def part_dtype(ty: Type) -> DType:
    """The dtype of a part, of type `ty`, as an object holds it."""
    return ty.dtype if isinstance(ty, TensorType) and not ty.rank else dt.handle


@dataclass(frozen=True, slots=True)
class Cell:
    """The payload of an object: the types of its fields, those of their parts, the places of these in bytes; its own
    dims, which have words behind the parts."""

    fields: tuple[Type, ...]
    leaves: tuple[Type, ...]
    offsets: tuple[int, ...]
    pointers: int
    dims: tuple[Var, ...] = ()

    @staticmethod
    def of(types: tuple[Type, ...], dims: tuple[Var, ...] = ()) -> Cell:
        """The cell with fields of these types, which has these dims of its own."""
        leaves = tuple(t for ty in types for t in leaf_types(ty))
        boxed = [part_dtype(t) == dt.handle for t in leaves]
        handles, scalars = 0, sum(boxed)
        offsets: list[int] = []
        for is_handle in boxed:
            offsets.append(WORD * (handles if is_handle else scalars))
            handles, scalars = handles + is_handle, scalars + (not is_handle)
        return Cell(types, leaves, tuple(offsets), sum(boxed), dims)

    @property
    def words(self) -> int:
        """The length of the payload in words."""
        return len(self.leaves) + len(self.dims)

    @property
    def dim_offsets(self) -> tuple[int, ...]:
        """The places of the dims in bytes."""
        return tuple(WORD * n for n in range(len(self.leaves), self.words))


def data_type(ty: Type, types: Mapping[GlobalTypeVar, TypeData]) -> TypeData:
    """The definition of data type `ty`."""
    name = ty.func if isinstance(ty, TypeCall) else ty
    assert isinstance(name, GlobalTypeVar)
    return types[name]


def field_types(con: Constructor, ty: Type, types: Mapping[GlobalTypeVar, TypeData]) -> tuple[Type, ...]:
    """The types of the fields of `con` in a value of type `ty`."""
    if not isinstance(ty, TypeCall):
        return con.inputs
    given = dict(zip(data_type(ty, types).type_vars, ty.args, strict=True))
    return tuple(replace_vars(t, given, {}) for t in con.inputs)


def constructor_cell(con: Constructor, ty: Type, types: Mapping[GlobalTypeVar, TypeData]) -> Cell:
    """The cell of a value of type `ty` that `con` has made."""
    return Cell.of(field_types(con, ty, types), own_dims(con))


def own_dims(con: Constructor) -> tuple[Var, ...]:
    """The dims that each value of `con` has of its own."""
    return tuple(dict.fromkeys(d for ty in con.inputs for d in free_dims(ty)))


def ref_cell(ty: Type) -> Cell:
    """The cell of a reference."""
    assert isinstance(ty, RefType)
    return Cell.of((ty.value,))
