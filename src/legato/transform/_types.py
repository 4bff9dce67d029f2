"""Questions about types that passes over whole programs ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from legato.arith.expr import Var as DimVar
from legato.infer.replace import replace_vars
from legato.ir.expr import Constructor
from legato.ir.module import Module
from legato.ir.types import Dim, FuncType, ShapeType, TensorType, TupleType, Type, TypeCall, TypeVar, walk

__all__ = ["TypeArgs", "bound_dims", "constructor_type", "has_function", "instance", "split", "stands_for",
           "type_vars"]  # fmt: skip

TypeArgs = tuple[Type | Dim, ...]


def type_vars(ty: Type) -> Iterator[TypeVar]:
    """The type variables in `ty` that no function type in it binds."""
    todo: list[tuple[Type, frozenset[object]]] = [(ty, frozenset())]
    while todo:
        part, bound = todo.pop()
        if isinstance(part, TypeVar) and part not in bound:
            yield part
        if isinstance(part, FuncType) and part.type_params:
            bound = bound.union(part.type_params)
        todo += [(kid, bound) for kid in reversed(part.children())]


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


def stands_for(
    pairs: Iterable[tuple[Type, Type]], wanted: Iterable[TypeVar | DimVar]
) -> dict[TypeVar | DimVar, Type | Dim]:
    """What the variables `wanted` of the first type of each pair stand for in the second."""
    variables = set(wanted)
    found: dict[TypeVar | DimVar, Type | Dim] = {}
    todo = list(pairs)[::-1]
    while todo:
        a, b = todo.pop()
        if isinstance(a, TypeVar):
            if a in variables:
                found.setdefault(a, b)
        elif isinstance(a, TensorType) and isinstance(b, TensorType):
            known = zip(a.shape, b.shape, strict=False)
            for d, e in known:
                if isinstance(d, DimVar) and d in variables:
                    found.setdefault(d, e)
        elif isinstance(a, ShapeType) and isinstance(b, ShapeType):
            for d, e in zip(a.dims or (), b.dims or (), strict=False):
                if isinstance(d, DimVar) and d in variables:
                    found.setdefault(d, e)
        else:
            todo += reversed(list(zip(a.children(), b.children(), strict=False)))
    return found


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
