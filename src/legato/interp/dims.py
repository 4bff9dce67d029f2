"""Dims at run time: values for the dim variables of types, and the check that a value has a type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from legato.arith.evaluate import evaluate
from legato.arith.expr import Const, const
from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var as DimVar
from legato.arith.linear import gather, solve
from legato.arith.substitute import substitute, variables
from legato.base import dtype as dt
from legato.base.errors import RunError
from legato.ir.types import ShapeType, TensorType, TupleType, Type

__all__ = ["Dims", "dim_value", "fit", "learn"]

Dims = dict[DimVar, int]


def dim_value(d: Dim, dims: Dims) -> int:
    """The value of `d`; RunError where one of its variables has none."""
    if isinstance(d, Const):
        return int(d.value)
    unbound = [v.name for v in variables(d) if v not in dims]
    if unbound:
        raise RunError(f"dim {d}: no argument, result or cast has told {' and '.join(unbound)} yet")
    return int(evaluate(d, dims))


def learn(dims: Dims, ty: Type | None, value: Any) -> None:
    """Binds the dim variables of `ty` that have no value yet, from a value of that type.

    RunError for one that has another: what functions give that are values, their types do not always say.
    """
    if isinstance(ty, TensorType) and isinstance(value, np.ndarray):
        for d, n in zip(ty.shape, value.shape, strict=False):
            if isinstance(d, DimVar) and dims.setdefault(d, n) != n:
                raise RunError(f"a dim is {n}, wanted {d} = {dims[d]}")
    elif isinstance(ty, ShapeType) and ty.dims is not None and isinstance(value, tuple):
        for d, n in zip(ty.dims, value, strict=False):
            if isinstance(d, DimVar) and dims.setdefault(d, n) != n:
                raise RunError(f"a dim is {n}, wanted {d} = {dims[d]}")
    elif isinstance(ty, TupleType) and isinstance(value, tuple):
        for f, v in zip(ty.fields, value, strict=False):
            learn(dims, f, v)


def fit(dims: Dims, ty: Type, value: Any, what: str, *, float64: bool = False) -> None:
    """Requires `value` to have type `ty`, binding the dim variables that are new; RunError naming `what` if not.

    With `float64` every float dtype of the type stands for float64.
    """
    match ty:
        case TensorType():
            _fit_tensor(dims, ty, value, what, float64)
        case TupleType():
            if not isinstance(value, tuple) or len(value) != len(ty.fields):
                raise RunError(f"{what}: wanted a tuple of {len(ty.fields)} fields")
            for n, (f, v) in enumerate(zip(ty.fields, value, strict=True)):
                fit(dims, f, v, f"{what}.{n}", float64=float64)
        case ShapeType() if ty.dims is not None:
            if not isinstance(value, tuple) or len(value) != len(ty.dims):
                raise RunError(f"{what}: wanted a shape of rank {len(ty.dims)}")
            _fit_dims(dims, ty.dims, value, what)
        case _:
            pass  # functions, cells and data: their parts are checked where they are used


def _fit_tensor(dims: Dims, ty: TensorType, value: Any, what: str, float64: bool) -> None:
    if not isinstance(value, np.ndarray | np.generic):
        raise RunError(f"{what}: got a {type(value).__name__}, wanted {ty}")
    wanted = dt.float64 if float64 and ty.dtype.is_float else ty.dtype
    if value.dtype != wanted.numpy:
        raise RunError(f"{what}: got dtype {value.dtype}, wanted {wanted}")
    if value.ndim != ty.rank:
        raise RunError(f"{what}: got shape {value.shape}, wanted {ty}")
    _fit_dims(dims, ty.shape, value.shape, what)


def _fit_dims(dims: Dims, wanted: Sequence[Dim], got: Sequence[int], what: str) -> None:
    for d, n in zip(wanted, got, strict=True):
        if isinstance(d, DimVar) and d not in dims:
            if n < (d.lo or 0) or (d.hi is not None and n > d.hi):
                raise RunError(f"{what}: dim {d} is {n}, wanted {_range(d)}")
            dims[d] = n
    for axis, (d, n) in enumerate(zip(wanted, got, strict=True)):
        unbound = [v for v in variables(d) if v not in dims]
        fits = _solve(dims, d, n, unbound) if unbound else evaluate(d, dims) == n
        if not fits:
            raise RunError(f"{what}: dim {axis} is {n}, wanted {d}" + ("" if unbound else _given(d, dims)))


def _solve(dims: Dims, d: Dim, n: int, unbound: Sequence[DimVar]) -> bool:
    """Finds the values that make `d` equal `n`; False if there are none. What has no one solution is left open."""
    found = solve(substitute(d, {v: const(k) for v, k in dims.items()}), const(n), unbound)
    if found is None:
        return any(not isinstance(term, DimVar) for term in gather(d)[0])
    if any(w not in dims for e in found.values() for w in variables(e)):
        return True
    values = {v: int(evaluate(e, dims)) for v, e in found.items()}
    dims.update(values)
    return all((v.lo or 0) <= k and (v.hi is None or k <= v.hi) for v, k in values.items())


def _range(d: DimVar) -> str:
    least = f"at least {d.lo or 0}"
    return least if d.hi is None else f"{least} and at most {d.hi}"


def _given(d: Dim, dims: Mapping[DimVar, int]) -> str:
    return "" if isinstance(d, Const) else f" = {evaluate(d, dims)}"
