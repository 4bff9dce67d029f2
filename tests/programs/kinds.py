"""Types of random programs: substitution, matching, data types, and literals of every type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from legato.arith.expr import Const, Expr
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import substitute
from legato.ir.expr import Constant, Constructor, constant
from legato.ir.types import (
    FuncType,
    GlobalTypeVar,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
    map_dims,
    scalar_type,
    tensor_type,
    walk,
)
from legato.prelude import library
from tests.programs.choices import Choices

INT, FLOAT, BOOL = (scalar_type(name) for name in ("int32", "float32", "bool"))


@dataclass(slots=True)
class Binding:
    """What the type parameters of something polymorphic stand for."""

    types: dict[TypeVar, Type] = field(default_factory=dict)
    dims: dict[DimVar, Expr] = field(default_factory=dict)

    def apply(self, ty: Type) -> Type:
        """`ty` with the parameters replaced."""
        if self.dims:
            ty = map_dims(ty, lambda d: substitute(d, self.dims))
        return replace_types(ty, self.types) if self.types else ty

    def match(self, pattern: Type, ty: Type, types: Sequence[TypeVar], dims: Sequence[DimVar]) -> bool:
        """Binds `types` and `dims` so that `pattern` becomes `ty`; False if that cannot be."""
        todo = [(pattern, ty)]
        while todo:
            a, b = todo.pop()
            if isinstance(a, TypeVar) and a in types:
                if self.types.setdefault(a, b) != b:
                    return False
            elif isinstance(a, TensorType) and isinstance(b, TensorType):
                if a.rank != b.rank or a.dtype != b.dtype:
                    return False
                for d, e in zip(a.shape, b.shape, strict=True):
                    if isinstance(d, DimVar) and d in dims:
                        self.dims.setdefault(d, e)
            elif type(a) is not type(b) or len(a.children()) != len(b.children()):
                return False
            else:
                todo += zip(a.children(), b.children(), strict=True)
        return self.apply(pattern) == ty


def replace_types(ty: Type, new: Mapping[TypeVar, Type]) -> Type:
    """`ty` with type variables replaced."""
    if isinstance(ty, TypeVar):
        return new.get(ty, ty)
    kids = ty.children()
    changed = tuple(replace_types(k, new) for k in kids)
    return ty if changed == kids else ty.with_children(changed)


# ------------------------------------------------------------------ data types


@dataclass(frozen=True, slots=True)
class Family:
    """A data type at given arguments: its constructors and what their fields are."""

    data: TypeData
    args: tuple[Type, ...]

    def fields(self, con: Constructor) -> tuple[Type, ...]:
        """The types of the fields of a constructor."""
        new = dict(zip(self.data.type_vars, self.args, strict=True))
        return tuple(replace_types(ty, new) for ty in con.inputs)

    @property
    def smallest(self) -> Constructor:
        """The constructor whose values are finite without further ado."""
        return min(self.data.constructors, key=lambda c: any(self.data.header in walk(i) for i in c.inputs))


def family(ty: Type, types: Mapping[GlobalTypeVar, TypeData]) -> Family | None:
    """The data type that `ty` is, if it is one that values can be built of."""
    func, args = (ty.func, ty.args) if isinstance(ty, TypeCall) else (ty, ())
    if not isinstance(func, GlobalTypeVar) or types[func].extern:
        return None
    return Family(types[func], args)


def applied(data: TypeData, args: Sequence[Type]) -> Type:
    """The type that `data` is at `args`."""
    return TypeCall(data.header, tuple(args)) if data.type_vars else data.header


def list_of(ty: Type) -> Type:
    """The prelude's list type."""
    header = next(t for t in library().types if t.name == "List")
    return TypeCall(header, (ty,))


def data_type(choose: Choices, name: str) -> TypeData:
    """A data type: the first constructor is flat, others may hold the type itself, alone, twice or in a list."""
    header = GlobalTypeVar(name)
    type_vars = tuple(TypeVar(v) for v in ("A", "B")[: choose.below(3)])
    own = applied(TypeData(header, type_vars, ()), type_vars)
    flat: list[Type] = [INT, tensor_type((2,)), *type_vars, TupleType((INT, *type_vars)), FuncType((INT,), INT)]
    rich = [own, *flat, list_of(own), own]
    constructors = []
    for n in range(1 + choose.below(3)):
        fields = tuple(choose.one_of(rich if n else flat) for _ in range(choose.below(3)))
        constructors.append(Constructor(f"{name}{'ABC'[n]}", fields, header, n))
    return TypeData(header, type_vars, tuple(constructors))


# ------------------------------------------------------------------ literals


@cache
def array(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray[Any, Any]:
    """Small values: all 0, all 1, or random ones; floats are multiples of one half. Strings: empty, or words."""
    if dtype.kind == "O":
        places = np.random.default_rng(seed).integers(0, min(seed, 2) + 1, shape)
        return np.array(np.array(["", "a", "é\n"], object)[places], object)
    if seed < 2:
        return np.full(shape, seed, dtype)
    rng = np.random.default_rng(seed)
    if dtype == np.bool_:
        return np.asarray(rng.random(shape) < 0.5)
    low = 0 if dtype.kind == "u" else -4
    values = rng.integers(low, 5, shape)
    return np.asarray(values.astype(dtype) if dtype.kind in "iu" else (values / 2).astype(dtype))


def literal(choose: Choices, ty: TensorType) -> Constant:
    """A constant of a static type."""
    return constant(array(ty.static_shape(), ty.dtype.numpy, choose.below(6)))


def is_const(d: Expr, least: int = 0) -> bool:
    """True for a literal dim of at least `least`."""
    return isinstance(d, Const) and d.value >= least


def has_function(ty: Type) -> bool:
    """True if there is a function, cell or data type inside: types that values do not determine."""
    return any(isinstance(p, FuncType | RefType | GlobalTypeVar) for p in walk(ty))


def has_cell(ty: Type) -> bool:
    """True if there is a cell inside."""
    return any(isinstance(p, RefType) for p in walk(ty))
