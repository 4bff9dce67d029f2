"""Kinds: whether a type that a program states is one.

A tensor, tuple, function, reference or shape type is of kind Type, and so are its parts. A data type takes as many
types as it has parameters; nothing else takes any. A type variable stands for what its kind says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.base.span import Span
from legato.ir._check_types import has_hole
from legato.ir.types import GlobalTypeVar, Kind, TensorType, TupleType, Type, TypeCall, TypeData, TypeVar

__all__ = ["Fault", "data_kind_fault", "kind_fault", "tensor_fault"]

MAX_RANK: Final = 64  # NumPy's
MAX_BYTES: Final = 2**63 - 1  # of a tensor with its extents of 0 left out, as NumPy counts


def tensor_fault(ty: Type) -> str | None:
    """Why there can be no tensor of type `ty`, or no tuple of such; None if there can, or it is another type."""
    if isinstance(ty, TupleType):
        return next((fault for field in ty.fields if (fault := tensor_fault(field)) is not None), None)
    if not isinstance(ty, TensorType):
        return None
    if len(ty.shape) > MAX_RANK:
        return f"a tensor has at most {MAX_RANK} dimensions, got {len(ty.shape)}"
    extents = [int(d.value) for d in ty.shape if type(d) is Const]
    if extents and min(extents) < 0:
        return f"no extent is negative, got {ty}"
    if math.prod([extent for extent in extents if extent]) * ty.dtype.bytes > MAX_BYTES:
        return f"a tensor has at most 2^63 bytes, its extents of 0 left out, got {ty}"
    return None


def kind_fault(ty: Type, types: Mapping[GlobalTypeVar, TypeData]) -> str | None:
    """What is wrong with `ty` as a type, in words; None if nothing is. `types` are the module's data types."""
    todo = [ty]
    while todo:
        part = todo.pop()
        args: tuple[Type, ...] = ()
        if isinstance(part, TypeCall):
            if not isinstance(part.func, GlobalTypeVar):
                return f"only data types take type arguments, got {part}"
            args, part = part.args, part.func
        fault = _leaf_fault(part, args, types)
        if fault is not None:
            return fault
        todo += reversed((*part.children(), *args))
    return None


def _leaf_fault(part: Type, args: tuple[Type, ...], types: Mapping[GlobalTypeVar, TypeData]) -> str | None:
    if isinstance(part, TypeVar):
        if part.kind in (Kind.TYPE, Kind.BASE_TYPE):
            return None
        return f"type variable {part.name} has kind {part.kind.value}, wanted Type"
    if isinstance(part, TensorType):
        return tensor_fault(part)
    if not isinstance(part, GlobalTypeVar):
        return None
    data = types.get(part)
    if data is None:
        return f"data type {part.name} is not defined"
    if len(data.type_vars) == len(args):
        return None
    wanted = ", ".join(v.name for v in data.type_vars)
    plural = "" if len(data.type_vars) == 1 else "s"
    takes = f"takes {len(data.type_vars)} type argument{plural} [{wanted}]" if wanted else "takes no type arguments"
    return f"data type {part.name} {takes}, got {len(args) or 'none'}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a definition, and where."""

    message: str
    span: Span | None = None


def data_kind_fault(data: TypeData, types: Mapping[GlobalTypeVar, TypeData]) -> Fault | None:
    """What is wrong with the definition of a data type; None if nothing is."""
    for variable in data.type_vars:
        if variable.kind not in (Kind.TYPE, Kind.BASE_TYPE):
            return Fault(f"parameter {variable.name} of data type {data.header.name} has kind {variable.kind.value}")
    for constructor in data.constructors:
        for ty in constructor.inputs:
            fault = kind_fault(ty, types)
            if fault is None and has_hole(ty):
                fault = "a hole `_` has nothing to be inferred from there"
            if fault is not None:
                where = f"constructor {constructor.name} of data type {data.header.name}"
                return Fault(f"{where}: {fault}", constructor.span)
    return None
