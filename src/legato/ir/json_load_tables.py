"""The tables of a module's JSON while it is read: spans, dims, types, arrays, and attribute values over them."""

from __future__ import annotations

import binascii
import math
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from legato.arith.expr import Binary, Const, Op, Select, const, fresh
from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Var as DimVar
from legato.arith.fold import COMPARISONS
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.span import Span
from legato.base.strings import string_array
from legato.ir._json_checks import Bad, entry_of, flag, integer, items, mapping, pick, text, wrong
from legato.ir._metadata import side_tensor
from legato.ir.constraint import Constraint
from legato.ir.json_format import DIM_OPERATORS, MAX_DIM, MAX_NESTING, MAX_RANK, MAX_TOTAL, MAX_TYPE
from legato.ir.types import (
    Dim,
    FuncType,
    GlobalTypeVar,
    HoleType,
    Kind,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

__all__ = ["LoadTables"]

Array = np.ndarray[Any, Any]
Json = Any

_KINDS: Final = {kind.value: kind for kind in Kind}
_FLOATS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LOGIC: Final = frozenset({Op.AND, Op.OR})


def kind_of(value: Json) -> Kind:
    """A kind by name."""
    if text(value) not in _KINDS:
        raise wrong(f"a kind ({', '.join(_KINDS)})", value)
    return _KINDS[value]


class LoadTables:
    """What numbers in the JSON mean. Tables are filled in order, so an entry refers to earlier ones only."""

    def __init__(self, tensors: Mapping[str, Array] | None) -> None:
        self.sources: list[str] = []
        self.spans: list[Span] = []
        self.dims: list[DimExpr] = []
        self.types: list[Type] = []
        self.arrays: list[Array] = []
        self.data: list[GlobalTypeVar] = []
        self._tensors = tensors
        self._dim_sizes: list[int] = []
        self._type_sizes: list[tuple[int, int]] = []  # size and depth
        self._total = 0  # sizes of all dims and types: what walks over them all may cost
        self._type_rules: Mapping[str, tuple[int, Callable[..., tuple[Type, list[Json], list[Json]]]]] = {
            "tensor": (2, self._tensor), "tuple": (1, self._tuple), "fn": (3, self._fn), "ref": (1, self._ref),
            "variable": (2, self._variable), "data": (1, self._data), "call": (2, self._call),
            "shape": (1, self._shape), "hole": (0, lambda: (HoleType(), [], [])),
        }  # fmt: skip

    # ------------------------------------------------------------------ spans, arrays

    def add_source(self, entry: Json) -> None:
        """Reads a source."""
        self.sources.append(text(entry))

    def add_span(self, entry: Json) -> None:
        """Reads a span."""
        source, *numbers = items(entry, 5)
        if not all(type(n) is int and 0 <= n < 1 << 31 for n in numbers):
            raise wrong("lines and columns", numbers)
        self.spans.append(Span(pick(source, self.sources, "a source"), *numbers))

    def span(self, value: Json) -> Span | None:
        """A span, or null."""
        return None if value is None else pick(value, self.spans, "a span")

    def add_array(self, entry: Json) -> None:
        """Reads an array; it is read-only."""
        name, shape, content = items(entry, 3)
        dtype = self.dtype(name)
        if not all(type(n) is int and n >= 0 for n in items(shape)) or len(shape) > MAX_RANK:
            raise wrong(f"at most {MAX_RANK} extents", shape)
        if dtype.is_string:
            data = _strings(content, shape)
        else:
            data = (self._bytes if type(content) is str else self._tensor_of)(content, dtype, shape)
        data.setflags(write=False)
        self.arrays.append(data)

    def _bytes(self, content: str, dtype: DType, shape: list[int]) -> Array:
        try:
            raw = b64decode(content, validate=True)
        except (binascii.Error, ValueError):
            raise Bad("the data of the array is not base64") from None
        wanted = math.prod(shape) * dtype.bytes
        if len(raw) != wanted:
            raise Bad(f"{dtype}{shape} has {wanted} bytes, got {len(raw)}")
        if dtype.is_bool and raw.strip(b"\x00\x01"):
            raise Bad("an array of bool has a byte that is neither 0 nor 1")
        try:
            return np.frombuffer(raw, dtype.numpy).reshape(shape)
        except ValueError:
            raise Bad(f"shape {shape} is too large") from None

    def _tensor_of(self, content: Json, dtype: DType, shape: list[int]) -> Array:
        name = text(entry_of(content, ("tensor",))["tensor"])
        return side_tensor(name, shape, dtype, self._tensors, "pass tensors=, or load the file that names it")

    def array(self, value: Json) -> Array:
        """An array by number."""
        return pick(value, self.arrays, "an array")

    def dtype(self, value: Json) -> DType:
        """A dtype by name."""
        if text(value) not in dt.BY_NAME:
            raise wrong("a dtype", value)
        return dt.BY_NAME[value]

    # ------------------------------------------------------------------ dims

    def add_dim(self, entry: Json) -> None:
        """Reads a dim."""
        if type(entry) is not list or not entry or type(entry[0]) is not str:
            raise wrong("a dim", entry)
        tag, *rest = entry
        dim, size = self._plain_dim(tag, rest)
        if size > MAX_DIM:
            raise Bad(f"a dim has more than {MAX_DIM} parts")
        self._count(size)
        self.dims.append(dim)
        self._dim_sizes.append(size)

    def _plain_dim(self, tag: str, rest: list[Json]) -> tuple[DimExpr, int]:
        if tag == "int":
            return const(integer(items(rest, 1)[0])), 1
        if tag == "bool":
            return Const(flag(items(rest, 1)[0]), dt.bool_), 1
        if tag == "var":
            name, lo, hi = items(rest, 3)
            if lo is not None and hi is not None and integer(lo) > integer(hi):
                raise wrong("a range that is not empty", [lo, hi])
            return fresh(text(name), *(None if b is None else integer(b) for b in (lo, hi))), 1
        if tag != "select" and tag not in DIM_OPERATORS:
            raise wrong("a dim", [tag])
        parts = [pick(n, self.dims, "a dim") for n in items(rest, 3 if tag == "select" else 2)]
        size = 1 + sum(self._dim_sizes[n] for n in rest)
        return self._select(*parts) if tag == "select" else self._binary(DIM_OPERATORS[tag], *parts), size

    def _select(self, cond: DimExpr, a: DimExpr, b: DimExpr) -> DimExpr:
        if not cond.dtype.is_bool or a.dtype != b.dtype:
            raise Bad(f"select of {cond.dtype}, {a.dtype} and {b.dtype}")
        return Select(cond, a, b)

    def _binary(self, op: Op, a: DimExpr, b: DimExpr) -> DimExpr:
        if a.dtype != b.dtype or a.dtype.is_bool != (op in _LOGIC or (op in COMPARISONS and a.dtype.is_bool)):
            raise Bad(f"{op.value} of {a.dtype} and {b.dtype}")
        return Binary(op, a, b)

    def dim(self, value: Json) -> Dim:
        """A dim by number."""
        return pick(value, self.dims, "a dim")

    def shape_of(self, value: Json) -> tuple[Dim, ...]:
        """Dims by numbers, each an index."""
        found = tuple(map(self.dim, items(value)))
        for dim in found:
            if dim.dtype != dt.index:
                raise Bad(f"a dim is of dtype {dim.dtype}, wanted index")
        return found

    # ------------------------------------------------------------------ types

    def add_type(self, entry: Json) -> None:
        """Reads a type."""
        if type(entry) is not list or not entry or type(entry[0]) is not str or entry[0] not in self._type_rules:
            raise wrong("a type", entry)
        count, rule = self._type_rules[entry[0]]
        ty, types, dims = rule(*items(entry[1:], count))
        sizes = [self._type_sizes[n] for n in types]
        size = 1 + sum(s for s, _ in sizes) + sum(self._dim_sizes[n] for n in dims)
        depth = 1 + max((d for _, d in sizes), default=0)
        if depth > MAX_NESTING:
            raise Bad(f"a type is nested more than {MAX_NESTING} deep")
        if size > MAX_TYPE:
            raise Bad(f"a type has more than {MAX_TYPE} parts")
        self._count(size)
        self.types.append(ty)
        self._type_sizes.append((size, depth))

    def _count(self, size: int) -> None:
        self._total += size
        if self._total > MAX_TOTAL:
            raise Bad(f"the types and dims have more than {MAX_TOTAL} parts in all")

    def type(self, value: Json) -> Type:
        """A type by number."""
        return pick(value, self.types, "a type")

    def _many(self, value: Json) -> tuple[Type, ...]:
        return tuple(map(self.type, items(value)))

    def _tensor(self, shape: Json, dtype: Json) -> tuple[Type, list[Json], list[Json]]:
        if len(items(shape)) > MAX_RANK:
            raise wrong(f"at most {MAX_RANK} dims", shape)
        return TensorType(self.shape_of(shape), self.dtype(dtype)), [], shape

    def _tuple(self, members: Json) -> tuple[Type, list[Json], list[Json]]:
        return TupleType(self._many(members)), members, []

    def _fn(self, params: Json, ret: Json, bound: Json) -> tuple[Type, list[Json], list[Json]]:
        made = FuncType(self._many(params), self.type(ret), self.variables(bound))
        return made, [*params, ret], []

    def _ref(self, value: Json) -> tuple[Type, list[Json], list[Json]]:
        return RefType(self.type(value)), [value], []

    def _variable(self, name: Json, kind: Json) -> tuple[Type, list[Json], list[Json]]:
        return TypeVar(text(name), kind_of(kind)), [], []

    def _data(self, value: Json) -> tuple[Type, list[Json], list[Json]]:
        return pick(value, self.data, "a data type"), [], []

    def _call(self, func: Json, args: Json) -> tuple[Type, list[Json], list[Json]]:
        return TypeCall(self.type(func), self._many(args)), [func, *args], []

    def _shape(self, dims: Json) -> tuple[Type, list[Json], list[Json]]:
        return ShapeType(None if dims is None else self.shape_of(dims)), [], dims or []

    def arguments(self, value: Json) -> tuple[Type | Dim, ...]:
        """Type arguments: types and dims."""
        return tuple(self._argument(entry) for entry in items(value))

    def _argument(self, entry: Json) -> Type | Dim:
        if type(entry) is dict and "dim" in entry:
            return self.shape_of([entry_of(entry, ("dim",))["dim"]])[0]
        return self.type(entry_of(entry, ("type",))["type"])

    def variables(self, value: Json) -> tuple[TypeVar | DimVar, ...]:
        """Type parameters: type variables and dim variables."""
        found = []
        for entry, each in zip(items(value), self.arguments(value), strict=True):
            if not isinstance(each, TypeVar | DimVar):
                raise wrong("a type variable or dim variable", entry)
            found.append(each)
        return tuple(found)

    # ------------------------------------------------------------------ attribute values

    def values(self, value: Json) -> dict[str, Any]:
        """Attribute values by name."""
        return {name: self.value(v) for name, v in mapping(value).items()}

    def value(self, value: Json, depth: int = 0) -> Any:
        """An attribute value."""
        if depth >= MAX_NESTING:
            raise Bad(f"attribute values are nested more than {MAX_NESTING} deep")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            if not math.isfinite(value):
                raise Bad("a number is too large")
            return value
        if type(value) is list:
            return tuple(self.value(v, depth + 1) for v in value)
        tag, content = next(iter(value.items())) if len(value) == 1 else ("", None)
        if tag == "map" and type(content) is dict:
            return {name: self.value(v, depth + 1) for name, v in content.items()}
        return self._tagged(tag, content, value)

    def _tagged(self, tag: str, content: Json, value: Json) -> Any:
        match tag:
            case "float" if type(content) is str and content in _FLOATS:
                return _FLOATS[content]
            case "dtype":
                return self.dtype(content)
            case "dim":
                return self.dim(content)
            case "type":
                return self.type(content)
            case "array":
                return self.array(content)
            case "constraint":
                a, b, what, span = items(content, 4)
                left, right = self.shape_of([a, b])
                return Constraint(left, right, text(what), self.span(span))
            case _:
                raise wrong("an attribute value", value)


def _strings(content: Json, shape: list[int]) -> Array:
    """An array of strings."""
    listed = items(entry_of(content, ("strings",))["strings"], math.prod(shape))
    return string_array(np.array([text(value) for value in listed], object), "an array", Bad).reshape(shape)
