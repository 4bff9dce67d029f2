"""Questions about types that passes over whole programs ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from legato.arith.expr import Var as DimVar
from legato.infer.replace import replace_vars
from legato.ir.dim_values import dim_values
from legato.ir.expr import Constructor
from legato.ir.module import Module
from legato.ir.types import UNIT, Dim, FuncType, ShapeType, TensorType, TupleType, Type, TypeCall, TypeVar, walk

__all__ = ["arguments", "bound_dims", "constructor_type", "has_function", "instance", "split"]

TypeArgs = tuple[Type | Dim, ...]


def has_function(ty: Type | None) -> bool:
    """True if a value of type `ty` is a function or states one in its parts."""
    return ty is not None and any(isinstance(part, FuncType) for part in walk(ty))


def bound_dims(types: Iterable[Type]) -> set[DimVar]:
    """The dims that arguments of these types give their values: those of tensors, tuples and shapes."""
    found: set[DimVar] = set()
    todo = list(types)
    while todo:
        ty = todo.pop()
        if isinstance(ty, TensorType):
            found.update(d for d in ty.shape if isinstance(d, DimVar))
        elif isinstance(ty, ShapeType):
            found.update(d for d in ty.dims or () if isinstance(d, DimVar))
        elif isinstance(ty, TupleType):
            todo += ty.fields
    return found


def constructor_type(con: Constructor, mod: Module) -> FuncType:
    """The type of `con` as a function, polymorphic in the type variables of its data type."""
    own = mod.types[con.belongs_to].type_vars
    return FuncType(con.inputs, TypeCall(con.belongs_to, own) if own else con.belongs_to, own)


def arguments(ty: FuncType, wanted: FuncType) -> TypeArgs | None:
    """What the type parameters of `ty` stand for where a function of that type is one of type `wanted`; None if that
    does not tell a dim. Where any type would do for a parameter, that is the unit type, as in inference."""
    dims = dim_values(wanted, ty, [p for p in ty.type_params if isinstance(p, DimVar)])
    types: dict[TypeVar, Type] = {}
    todo: list[tuple[Type, Type]] = [(ty, wanted)]
    while todo:
        a, b = todo.pop()
        if isinstance(a, TypeVar):
            types.setdefault(a, b)
        else:
            todo += reversed(list(zip(a.children(), b.children(), strict=False)))
    found = tuple(types.get(p, UNIT) if isinstance(p, TypeVar) else dims.get(p) for p in ty.type_params)
    told = tuple(a for a in found if a is not None)
    return told if len(told) == len(found) else None


def split(
    params: Sequence[TypeVar | DimVar], args: Sequence[Type | Dim]
) -> tuple[dict[TypeVar, Type], dict[DimVar, Dim]]:
    """What type parameters stand for: those that are types, and those that are dims."""
    pairs = list(zip(params, args, strict=True))
    types = {p: a for p, a in pairs if isinstance(p, TypeVar) and isinstance(a, Type)}
    dims = {p: a for p, a in pairs if isinstance(p, DimVar) and isinstance(a, Dim)}
    return types, dims


def instance(ty: FuncType, args: TypeArgs) -> FuncType:
    """`ty` with its type parameters replaced by the arguments, in their order."""
    if not ty.type_params:
        return ty
    new = replace_vars(FuncType(ty.params, ty.ret), *split(ty.type_params, args))
    assert isinstance(new, FuncType)
    return new
