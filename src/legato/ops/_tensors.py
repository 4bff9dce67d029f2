"""Small helpers that operator families share: accumulation dtypes, volumes and costs, array widths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from legato.arith.expr import Const, Expr, ExprLike, const, expr
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import InternalError
from legato.ir.op import Cost, Relation
from legato.ir.types import Dim, TensorType, Type
from legato.te.tensor import Tensor, compute
from legato.tir.expr import cast

__all__ = ["Array", "DtypeName", "Index", "accumulator", "as_int", "cast_to", "contraction_cost", "converted",
           "known_int", "narrowed", "product", "require_choice", "result_dtype", "tensor_bytes", "wide"]  # fmt: skip

Array = np.ndarray[Any, Any]
Index = Any  # a NumPy subscript
DtypeName = DType | str | None  # an attribute that names a dtype; "" and None name none


def accumulator(dtype: DType) -> DType:
    """The dtype in which sums over elements of `dtype` are formed: float32 for 16-bit floats, else the same."""
    return dt.float32 if dtype.is_float and dtype.bits == 16 else dtype


def wide(x: Array) -> Array:
    """`x` in its accumulation dtype."""
    return x.astype(accumulator(dt.dtype(x.dtype)).numpy, copy=False)


def cast_to(x: Array, dtype: DType) -> Array:
    """`x` as `dtype`, by NumPy's conversion."""
    return x.astype(dtype.numpy, copy=False)


def converted(x: Array, dtype: DType) -> Array:
    """`x` as `dtype`; floats to integers truncate and saturate, and NaN gives 0, as a cast in a kernel does."""
    if dtype.is_int and not np.issubdtype(x.dtype, np.integer):
        x = np.clip(np.nan_to_num(np.trunc(x)), dtype.min, dtype.max)
    return cast_to(x, dtype)


def narrowed(x: Tensor, dtype: DType, name: str = "narrow") -> Tensor:
    """`x` as a tensor of `dtype`: itself, or a stage that casts."""
    return x if x.dtype == dtype else compute(x.shape, lambda *i: cast(x[i], dtype), name)


def product(factors: Iterable[ExprLike]) -> Dim:
    """The product of dims (1 of none)."""
    total: Expr = const(1)
    for factor in factors:
        total = total * expr(factor)
    return total


def known_int(d: Dim | int) -> int | None:
    """The value of a dim that is a literal, else None."""
    if isinstance(d, int):
        return d
    return int(d.value) if isinstance(d, Const) else None


def as_int(d: Dim | int) -> int:
    """The value of a dim that must be a literal: in references, where every dim has its value."""
    value = known_int(d)
    if value is None:
        raise InternalError(f"dim {d} has no value here")
    return value


def tensor_bytes(types: Iterable[Type]) -> Dim:
    """Bytes of all tensors among `types`."""
    total: Expr = const(0)
    for ty in types:
        if isinstance(ty, TensorType):
            total = total + product(ty.shape) * ty.dtype.bytes
    return total


def contraction_cost(macs: Dim, arg_types: Sequence[Type], out_type: Type) -> Cost:
    """The cost of `macs` multiply-adds that read every argument and write the result once."""
    return Cost(macs * 2, tensor_bytes((*arg_types, out_type)))


def result_dtype(named: DtypeName, dtype: DType) -> DType:
    """The dtype that an `out_dtype` attribute names (nothing: `dtype`)."""
    return dt.dtype(named) if named else dtype


def require_choice(rel: Relation, name: str, value: str, choices: Iterable[str]) -> None:
    """Fails unless attribute `name` has one of the `choices`."""
    if value not in choices:
        raise rel.fail(f"no {name} {value!r}", hint="one of " + ", ".join(c for c in choices if c))
