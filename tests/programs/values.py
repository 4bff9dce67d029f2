"""Values for the parameters of random programs, and whether two values are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from legato.arith.evaluate import evaluate as evaluate_dim
from legato.arith.expr import Var as DimVar
from legato.interp import Closure, Data, Ref
from legato.ir.expr import Constructor
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.types import GlobalTypeVar, ShapeType, TensorType, TupleType, Type, TypeData
from tests.programs.kinds import array, family

__all__ = ["has_type", "moved", "same", "value"]


def value(ty: Type, dims: Mapping[DimVar, int], types: Mapping[GlobalTypeVar, TypeData], seed: int) -> Any:
    """A value of a tensor, tuple or data type; `seed` also says how long a list is."""
    if isinstance(ty, TensorType):
        return array(tuple(int(evaluate_dim(d, dims)) for d in ty.shape), ty.dtype.numpy, seed)
    if isinstance(ty, TupleType):
        return tuple(value(f, dims, types, seed) for f in ty.fields)
    found = family(ty, types)
    assert found is not None
    made = Data(found.smallest, tuple(value(f, dims, types, seed) for f in found.fields(found.smallest)))
    for con in (c for c in found.data.constructors if c is not found.smallest):
        for n in range(seed):
            made = Data(con, tuple(made if f == ty else value(f, dims, types, n) for f in found.fields(con)))
    return made


def moved(found: Any, module: Module) -> Any:
    """A value with the constructors that `module` has by the same names."""
    if isinstance(found, tuple):
        return tuple(moved(f, module) for f in found)
    if not isinstance(found, Data):
        return found
    data = next(t for t in module.types.values() if t.header.name == found.constructor.belongs_to.name)
    return Data(data.constructors[found.constructor.tag], tuple(moved(f, module) for f in found.fields))


def same(a: Any, b: Any, *, rounded: bool = False) -> bool:
    """True if two values are equal bit by bit (NaN equals NaN), or floats but for `rounded` sums; of functions, only
    that they are functions."""
    todo = [(a, b)]
    while todo:
        x, y = todo.pop()
        if isinstance(x, tuple):
            if not isinstance(y, tuple) or len(x) != len(y):
                return False
            todo += zip(x, y, strict=True)
        elif isinstance(x, Data):
            if not isinstance(y, Data) or x.constructor.name != y.constructor.name:
                return False
            todo += zip(x.fields, y.fields, strict=True)
        elif isinstance(x, Ref):
            todo.append((x.value, y.value))
        elif isinstance(x, Closure | Op | Constructor):
            if not isinstance(y, Closure | Op | Constructor):
                return False
        elif isinstance(x, int):  # of a shape
            if x != y:
                return False
        elif x.dtype != y.dtype or x.shape != y.shape or not (_near if rounded else _equal)(x, y):
            return False
    return True


def _equal(x: Any, y: Any) -> bool:
    return np.array_equal(x, y, equal_nan=x.dtype.kind in "fV")


def _near(x: Any, y: Any) -> bool:
    """Whether floats differ by what a few roundings of numbers of this size, or of about 1, may leave."""
    if x.dtype.kind not in "fV":
        return _equal(x, y)
    error = 64 * float(ml_dtypes.finfo(x.dtype).eps)
    return bool(np.allclose(x.astype(float), y.astype(float), rtol=error, atol=error, equal_nan=True))


def has_type(found: Any, ty: Type, dims: Mapping[DimVar, int], types: Mapping[GlobalTypeVar, TypeData]) -> bool:
    """True if a value has a type: dtypes, shapes, constructors; of functions, only that they are functions."""
    todo = [(found, ty)]
    while todo:
        x, t = todo.pop()
        if isinstance(t, TensorType):
            shape = tuple(int(evaluate_dim(d, dims)) for d in t.shape)
            if not isinstance(x, np.ndarray) or x.dtype != t.dtype.numpy or x.shape != shape:
                return False
        elif isinstance(t, TupleType):
            if not isinstance(x, tuple) or len(x) != len(t.fields):
                return False
            todo += zip(x, t.fields, strict=True)
        elif isinstance(t, ShapeType):
            if x != tuple(int(evaluate_dim(d, dims)) for d in t.dims or ()):
                return False
        elif isinstance(x, Data):
            kind = family(t, types)
            if kind is None or x.constructor not in kind.data.constructors:
                return False
            todo += zip(x.fields, kind.fields(x.constructor), strict=True)
        elif isinstance(x, Ref):
            todo.append((x.value, t.children()[0]))
        elif not isinstance(x, Closure | Op | Constructor):
            return False
    return True
