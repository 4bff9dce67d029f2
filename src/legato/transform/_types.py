"""Questions about types that passes over whole programs ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from legato.arith.expr import Var as DimVar
from legato.infer.replace import replace_vars
from legato.ir.expr import Call, Constructor, Function
from legato.ir.module import Module
from legato.ir.types import Dim, FuncType, ShapeType, TensorType, TupleType, Type, TypeCall, TypeVar, walk

__all__ = ["bound_dims", "constructor_type", "has_function", "instance", "stands_for", "type_arguments",
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


def type_arguments(call: Call, callee: FuncType | Function) -> TypeArgs:
    """What the type parameters of `callee` stand for in `call`: inference noted it, or the types of the call say it.

    A parameter that nothing says anything of is missing: the result is shorter then.
    """
    params = callee.type_params
    if len(call.type_args) == len(params):
        return call.type_args
    ty = callee if isinstance(callee, FuncType) else callee.ty
    assert isinstance(ty, FuncType)
    pairs = [(p, a.ty) for p, a in zip(ty.params, call.args, strict=True) if a.ty is not None]
    if call.ty is not None:
        pairs.append((ty.ret, call.ty))
    found = stands_for(pairs, params)
    return tuple(found[p] for p in params if p in found)


def instance(ty: FuncType, args: TypeArgs) -> FuncType:
    """`ty` with its type parameters replaced by the arguments, in their order."""
    if not ty.type_params:
        return ty
    pairs = list(zip(ty.type_params, args, strict=False))
    types = {p: a for p, a in pairs if isinstance(p, TypeVar) and isinstance(a, Type)}
    dims = {p: a for p, a in pairs if isinstance(p, DimVar) and isinstance(a, Dim)}
    new = replace_vars(FuncType(ty.params, ty.ret), types, dims)
    assert isinstance(new, FuncType)
    return new
