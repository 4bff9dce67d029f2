"""Annotations of graph functions: what `R.Tensor(…)` and its kin say, and the types that they stand for.

R.Tensor(("n", 784), "float32")   R.Tensor("float32", ndim=2)   R.Tuple(…)   R.Shape(["n"])   R.Prim("int64")
R.Callable((…), …)   R.Object, R.Any, R.Tensor() and what else leaves something open: inferred
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.arith.expr import Expr, Var
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.ir.kinds import MAX_RANK
from legato.ir.types import FuncType, HoleType, ShapeType, TensorType, TupleType, Type, scalar_type

__all__ = ["AnyForm", "CallableForm", "PrimForm", "ShapeForm", "TensorForm", "TupleForm", "type_of"]


@dataclass(frozen=True, slots=True)
class TensorForm:
    """`R.Tensor(shape, dtype, ndim)`; what is None is not told."""

    shape: tuple[Any, ...] | None
    dtype: dt.DType | None
    ndim: int | None = None


@dataclass(frozen=True, slots=True)
class TupleForm:
    """`R.Tuple(…)`."""

    fields: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ShapeForm:
    """`R.Shape([…])`, `R.Shape(ndim=…)`."""

    dims: tuple[Any, ...] | None
    ndim: int | None = None


@dataclass(frozen=True, slots=True)
class PrimForm:
    """`R.Prim("int64")`: a scalar."""

    dtype: dt.DType


@dataclass(frozen=True, slots=True)
class CallableForm:
    """`R.Callable((params), result)`."""

    params: tuple[Any, ...]
    ret: Any
    dims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnyForm:
    """`R.Object`, `R.Any`: whatever is inferred."""

    def __call__(self) -> AnyForm:
        return self


def type_of(form: Any, dim: Callable[[Any], Expr]) -> Type:
    """The type that an annotation stands for; `dim` makes dims of what shapes are written with.

    HoleType, or one inside, where the annotation leaves something to inference. TypeCheckError for no annotation.
    """
    form = form() if isinstance(form, type(lambda: 0)) else form
    match form:
        case TensorForm(dtype=None):
            return HoleType()
        case TensorForm(shape=None, ndim=None):
            return HoleType()
        case TensorForm(shape=shape, dtype=dt.DType() as dtype, ndim=ndim):
            return TensorType(_anonymous(ndim) if shape is None else tuple(map(dim, shape)), dtype)
        case TupleForm(fields=fields):
            return TupleType(tuple(type_of(f, dim) for f in fields))
        case ShapeForm(dims=None, ndim=ndim):
            return ShapeType(None if ndim is None else _anonymous(ndim))
        case ShapeForm(dims=dims):
            assert dims is not None
            return ShapeType(tuple(map(dim, dims)))
        case PrimForm(dtype=dtype):
            return scalar_type(dtype)
        case CallableForm(params=params, ret=ret, dims=own):
            bound = tuple(v for v in map(dim, own) if isinstance(v, Var))
            return FuncType(tuple(type_of(p, dim) for p in params), type_of(ret, dim), bound)
        case AnyForm():
            return HoleType()
        case Type():
            return form
    raise TypeCheckError(
        f"a {type(form).__name__} is no annotation", hint='R.Tensor(("n", 4), "float32"), R.Tuple(…), …'
    )


def _anonymous(ndim: int | None) -> tuple[Expr, ...]:
    """Dims that nothing names."""
    if not 0 <= (ndim or 0) <= MAX_RANK:
        raise TypeCheckError(f"a tensor of rank {ndim}, wanted 0 to {MAX_RANK}")
    return tuple(Var(f"d{i}", dt.index, 0) for i in range(ndim or 0))
