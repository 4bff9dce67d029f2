"""Whether the values that a program is given are of its parameters' types, all through: data types, too."""

from __future__ import annotations

from collections.abc import Mapping

from legato.base.errors import RunError
from legato.interp.dims import Dims, fit
from legato.interp.patterns import is_made_by
from legato.interp.values import Data, Value
from legato.ir._dims import free_dims
from legato.ir.types import FuncType, GlobalTypeVar, TupleType, Type, TypeCall, TypeData, TypeVar

__all__ = ["check_argument"]


def check_argument(types: Mapping[GlobalTypeVar, TypeData], dims: Dims, ty: Type, value: Value, what: str) -> None:
    """RunError, naming `what`, where a value of a data type in `value` is not of its type.

    Tensors in it tell the dims of `ty` that have no value yet; dims of a declaration are each value's own.
    """
    todo = [(ty, value)]
    outer = free_dims(ty)
    known: dict[tuple[int, Type], tuple[Type, ...]] = {}
    while todo:
        wanted, part = todo.pop()
        if isinstance(wanted, TupleType):
            todo += zip(wanted.fields, part, strict=True)
        if not isinstance(wanted, TypeCall | GlobalTypeVar):
            continue
        header = wanted.func if isinstance(wanted, TypeCall) else wanted
        data = types.get(header) if isinstance(header, GlobalTypeVar) else None
        if data is None or data.extern:
            continue
        if not isinstance(part, Data):
            raise RunError(f"{what}: got a {type(part).__name__}, wanted a value of {wanted}")
        con = next((c for c in data.constructors if is_made_by(part, c)), None)
        if con is None:
            raise RunError(f"{what}: {part.constructor.name} is no constructor of {wanted}")
        if len(part.fields) != len(con.inputs):
            raise RunError(f"{what}: {con.name} has {len(part.fields)} fields, wanted {len(con.inputs)}")
        fields = known.get((con.tag, wanted))
        if fields is None:
            args = wanted.args if isinstance(wanted, TypeCall) else ()
            stands = dict(zip(data.type_vars, args, strict=True))
            fields = known[con.tag, wanted] = tuple(_replaced(t, stands) for t in con.inputs)
        for n, (t, v) in enumerate(zip(fields, part.fields, strict=True)):
            scope = {d: dims[d] for d in outer if d in dims}
            fit(scope, t, v, f"{what}: field {n} of {con.name}")
            dims.update({d: scope[d] for d in outer if d in scope})
        todo += zip(fields, part.fields, strict=True)


def _replaced(ty: Type, stands: Mapping[TypeVar, Type]) -> Type:
    if isinstance(ty, TypeVar):
        return stands.get(ty, ty)
    if isinstance(ty, FuncType):
        return ty  # functions are not looked into
    kids = ty.children()
    return ty.with_children(tuple(_replaced(k, stands) for k in kids)) if kids else ty
