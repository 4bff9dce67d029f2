"""The tables of a module's JSON while it is written: spans, dims, types, arrays, and attribute values over them."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import numpy as np

from legato.arith.expr import Binary, Const, Select
from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Var as DimVar
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import CompileError
from legato.base.node import post_order
from legato.base.span import Span
from legato.ir._metadata import INLINE_BYTES
from legato.ir.constraint import Constraint
from legato.ir.json_format import DIM_OPERATORS, MAX_NESTING
from legato.ir.types import (
    Dim,
    FuncType,
    GlobalTypeVar,
    HoleType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

__all__ = ["SaveTables"]

Array = np.ndarray[Any, Any]
Json = Any


class SaveTables:
    """Gives every span, dim, type and array a number; what it is asked for twice has one number.

    data: the number of each data type of the module. tensors: receives the arrays of more than INLINE_BYTES; None: they
    are in the JSON.
    """

    def __init__(self, data: Mapping[GlobalTypeVar, int], tensors: dict[str, Array] | None) -> None:
        self.sources: list[str] = []
        self.spans: list[Json] = []
        self.dims: list[Json] = []
        self.types: list[Json] = []
        self.arrays: list[Json] = []
        self._data = data
        self._tensors = tensors
        self._source: dict[str, int] = {}
        self._span: dict[Span, int] = {}
        self._dim: dict[DimExpr, int] = {}
        self._type: dict[Type, int] = {}
        self._array: dict[int, int] = {}
        self._kept: list[Array] = []  # alive, so that no other array has the id of one of them

    # ------------------------------------------------------------------ spans, arrays

    def span(self, span: Span | None) -> int | None:
        """The number of a span."""
        if span is None:
            return None
        found = self._span.get(span)
        if found is None:
            found = self._span[span] = len(self.spans)
            source = self._source.setdefault(span.source, len(self.sources))
            if source == len(self.sources):
                self.sources.append(span.source)
            self.spans.append([source, span.line, span.column, span.end_line, span.end_column])
        return found

    def array(self, data: Any) -> int:
        """The number of an array; the same for the same object."""
        if not isinstance(data, np.ndarray):
            raise CompileError(f"a constant of the module is a {type(data).__name__}, not an array")
        found = self._array.get(id(data))
        if found is None:
            found = self._array[id(data)] = len(self.arrays)
            self._kept.append(data)
            dtype = dt.dtype(data.dtype).name
            content: Json
            if dtype == dt.string.name:
                content = {"strings": data.ravel().tolist()}
            elif self._tensors is None or data.nbytes <= INLINE_BYTES:
                content = b64encode(np.ascontiguousarray(data).tobytes()).decode("ascii")
            else:
                name = f"constant_{found}"
                self._tensors[name] = data
                content = {"tensor": name}
            self.arrays.append([dtype, list(data.shape), content])
        return found

    # ------------------------------------------------------------------ dims and types

    def dim(self, dim: Dim) -> int:
        """The number of a dim."""
        found = self._dim.get(dim)
        if found is None:
            for part in post_order([dim], lambda d: d not in self._dim):
                if part not in self._dim:
                    self._dim[part] = len(self.dims)
                    self.dims.append(self._dim_entry(part))
            found = self._dim[dim]
        return found

    def _dim_entry(self, dim: DimExpr) -> Json:
        match dim:
            case Const(value=value) if dim.dtype == dt.index:
                return ["int", int(value)]
            case Const(value=value) if dim.dtype.is_bool:
                return ["bool", bool(value)]
            case DimVar() if dim.dtype == dt.index:
                return ["var", dim.name, dim.lo, dim.hi]
            case Binary() if dim.op.value in DIM_OPERATORS:
                return [dim.op.value, self._dim[dim.a], self._dim[dim.b]]
            case Select():
                return ["select", self._dim[dim.cond], self._dim[dim.a], self._dim[dim.b]]
            case _:
                raise CompileError(f"dim {dim} has no JSON form: it is made of {type(dim).__name__} of {dim.dtype}")

    def type(self, ty: Type, depth: int = 0) -> int:
        """The number of a type; CompileError for one that is nested more than 100 deep."""
        found = self._type.get(ty)
        if found is None:
            if depth >= MAX_NESTING:
                raise CompileError(f"a type is nested more than {MAX_NESTING} deep, so it has no JSON form")
            entry = self._type_entry(ty, depth + 1)
            found = self._type[ty] = len(self.types)
            self.types.append(entry)
        return found

    def _type_entry(self, ty: Type, depth: int) -> Json:
        match ty:
            case TensorType(shape, dtype):
                return ["tensor", list(map(self.dim, shape)), dtype.name]
            case TupleType(members):
                return ["tuple", [self.type(t, depth) for t in members]]
            case FuncType(params, ret, bound):
                types = [self.type(t, depth) for t in params]
                return ["fn", types, self.type(ret, depth), self.binders(bound)]
            case RefType(value):
                return ["ref", self.type(value, depth)]
            case TypeVar(name, kind):
                return ["variable", name, kind.value]
            case GlobalTypeVar(name):
                if ty not in self._data:
                    raise CompileError(f"data type {name} is not defined in the module")
                return ["data", self._data[ty]]
            case TypeCall(func, args):
                return ["call", self.type(func, depth), [self.type(t, depth) for t in args]]
            case ShapeType(dims):
                return ["shape", None if dims is None else list(map(self.dim, dims))]
            case HoleType():
                return ["hole"]
            case _:
                raise CompileError(f"type {ty!r} has no JSON form")

    def binders(self, bound: tuple[Type | Dim, ...]) -> Json:
        """Type parameters or arguments."""
        return [{"type": self.type(b)} if isinstance(b, Type) else {"dim": self.dim(b)} for b in bound]

    # ------------------------------------------------------------------ attribute values

    def values(self, attrs: Mapping[str, Any], where: str) -> Json:
        """Attributes by name; CompileError for a value that JSON cannot hold (`where` names what has them)."""
        return {name: self.value(value, f"attribute {name} of {where}") for name, value in attrs.items()}

    def value(self, value: Any, where: str, depth: int = 0) -> Json:
        """One attribute value."""
        if depth >= MAX_NESTING:
            raise CompileError(f"{where} is nested more than {MAX_NESTING} deep, so it has no JSON form")
        match value:
            case list() | tuple():
                return [self.value(v, where, depth + 1) for v in value]
            case Mapping() if all(isinstance(k, str) for k in value):
                return {"map": {k: self.value(v, where, depth + 1) for k, v in value.items()}}
            case np.ndarray():
                return {"array": self.array(value)}
            case DType(name):
                return {"dtype": name}
            case DimExpr():
                return {"dim": self.dim(value)}
            case Type():
                return {"type": self.type(value)}
            case Constraint(a, b, what, span):
                return {"constraint": [self.dim(a), self.dim(b), what, self.span(span)]}
            case _:
                return _scalar(value, where)


def _scalar(value: Any, where: str) -> Json:
    match value:
        case None | bool() | str():
            return value
        case int() | np.integer():
            return int(value)
        case np.bool_():
            return bool(value)
        case float() | np.floating():
            number = float(value)
            return number if math.isfinite(number) else {"float": str(number)}
        case _:
            raise CompileError(f"{where} holds a {type(value).__name__}, which has no JSON form")
