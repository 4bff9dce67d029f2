"""The value that an input has for good, held against the input's type."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from legato.arith.expr import Const
from legato.base.errors import CompileError
from legato.base.spelling import option
from legato.ir.types import TensorType, Type

__all__ = ["constant_input"]


def constant_input(
    name: str, ty: Type | None, value: ArrayLike, error: type[CompileError] = CompileError
) -> np.ndarray[Any, Any]:
    """The array that input `name`, of type `ty`, always has; `error` where it does not fit."""
    if not isinstance(ty, TensorType):
        raise error(f"{option('constants')}: input {name!r} is no tensor")
    array = np.array(value)
    if array.dtype != ty.dtype.numpy and np.can_cast(array.dtype, ty.dtype.numpy, "same_kind"):
        array = array.astype(ty.dtype.numpy)
    fits = array.ndim == ty.rank and all(
        d == n for d, n in zip(ty.shape, array.shape, strict=True) if isinstance(d, Const)
    )
    if array.dtype != ty.dtype.numpy or not fits:
        raise error(f"{option('constants')}: {name!r} is {array.dtype}{list(array.shape)}, but the input is {ty}")
    return array
