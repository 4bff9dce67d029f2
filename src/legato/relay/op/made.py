"""Operator functions that make arguments from Python values, or attributes from names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legato.base.errors import TypeCheckError
from legato.ir.expr import Constant, Expr, constant
from legato.ir.types import TensorType
from legato.relay.op._functions import function

__all__ = ["matrix_set_diag", "reverse_reshape", "strided_set", "trilu"]


def trilu(data: Expr, k: Any, upper: bool = True) -> Any:
    """The part of matrices on and above (`upper`), or on and below, diagonal `k`, a number or a tensor; elsewhere 0."""
    return function("trilu")(data, k if isinstance(k, Expr) else constant(k, "int32"), upper)


def strided_set(data: Expr, v: Expr, begin: Any, end: Any, strides: Any = None) -> Any:
    """`data` with data[begin:end:strides] set to `v`; bounds are tensors, or lists of numbers."""
    first, last = (_integers(x) for x in (begin, end))
    if strides is None:
        if not isinstance(first.ty, TensorType):
            raise TypeCheckError("relay.strided_set: the type of begin is not known yet", hint="give strides")
        strides = np.ones(first.ty.static_shape(), np.int64)
    return function("strided_set")(data, v, first, last, _integers(strides))


def _integers(x: Any) -> Expr:
    return x if isinstance(x, Expr) else constant(np.asarray(x, np.int64))


def matrix_set_diag(data: Expr, diagonal: Expr, k: Any = 0, align: str = "RIGHT_LEFT") -> Any:
    """`data` with diagonal `k`, or those from k[0] to k[1], replaced.

    `align` says where those that are shorter than the longest stand in their rows: the ones on and above the main
    diagonal, then the ones below it.
    """
    if isinstance(k, Constant):
        k = k.data.tolist()
    listed = [int(n) for n in k] if isinstance(k, Sequence) else [int(k)]
    sides = align.split("_")
    if len(listed) not in (1, 2) or len(sides) != 2 or not {*sides} <= {"LEFT", "RIGHT"}:
        raise TypeCheckError(f"relay.matrix_set_diag: k is {k!r} and align {align!r}, wanted a number or two, and "
                             "LEFT or RIGHT twice, as in RIGHT_LEFT")  # fmt: skip
    return function("matrix_set_diag")(data, diagonal, listed[0], listed[-1], *(s == "RIGHT" for s in sides))


def reverse_reshape(data: Expr, newshape: Any) -> Any:
    """As `reshape`, with the codes read from the last to the first."""
    return function("contrib_reverse_reshape")(data, newshape)
