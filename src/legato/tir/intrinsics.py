"""The scalar functions that loop programs may call, each with its meaning in NumPy.

`bound` is the promised error of generated code in units in the last place of the dtype (0: exact).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.storage import reinterpreted

__all__ = ["INTRINSICS", "Intrinsic"]

_erf = np.frompyfunc(math.erf, 1, 1)


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """A scalar function: the result has the dtype of the first argument, or `result`, or is bool for a predicate.

    `operands` are the dtypes of the arguments, where only these will do. bits: the result has the bits of the argument,
    whose dtype has as many.
    """

    name: str
    arity: int
    reference: Callable[..., Any]
    bound: float = 0.0
    predicate: bool = False
    result: DType | None = None
    operands: tuple[DType, ...] = ()
    bits: bool = False

    def dtype(self, first: DType) -> DType:
        """The dtype of the result where the first argument has dtype `first`."""
        return dt.bool_ if self.predicate else self.result or first


def _erf_reference(x: Any) -> Any:
    return np.asarray(_erf(np.asarray(x, np.float64)), np.float64).astype(np.asarray(x).dtype)


def _fma(a: Any, b: Any, c: Any) -> Any:
    wide = np.float64 if np.asarray(a).dtype.itemsize < 8 else np.longdouble
    return (np.asarray(a, wide) * np.asarray(b, wide) + np.asarray(c, wide)).astype(np.asarray(a).dtype)


def _pow(a: Any, b: Any) -> Any:
    """C's pow. For an exponent that is the same everywhere NumPy takes short cuts (sqrt for 0.5) that differ from it,
    at -inf above all: here no exponent is, one more element sees to that."""
    x, y = np.broadcast_arrays(a, b)
    base, exponent = (np.append(v.ravel(), np.ones(1, v.dtype)) for v in (x, y))
    return np.power(base, exponent)[:-1].reshape(x.shape)


def _pair(lo: Any, hi: Any) -> Any:
    """Two bfloat16 in 32 bits, the first in the low half."""
    bits = [np.asarray(x).view(np.uint16).astype(np.uint32) for x in (lo, hi)]
    return (bits[0] | (bits[1] << np.uint32(16)))[()]


def _dot2(total: Any, a: Any, b: Any) -> Any:
    """total + a.lo·b.lo + a.hi·b.hi for pairs of bfloat16: products are exact, each sum is rounded."""
    x, y = np.asarray(a, np.uint32), np.asarray(b, np.uint32)
    for shift in (np.uint32(16), np.uint32(0)):
        left, right = (((bits << shift) & np.uint32(0xFFFF0000)).view(np.float32) for bits in (x, y))
        total = _fma(left, right, np.asarray(total, np.float32))
    return total


_LIST = [
    Intrinsic("exp", 1, np.exp, 2.5),
    Intrinsic("log", 1, np.log, 2.5),
    Intrinsic("sqrt", 1, np.sqrt),
    Intrinsic("tanh", 1, np.tanh, 5.0),
    Intrinsic("erf", 1, _erf_reference, 5.0),
    Intrinsic("sin", 1, np.sin, 3.0),
    Intrinsic("cos", 1, np.cos, 3.0),
    Intrinsic("tan", 1, np.tan, 5.0),
    Intrinsic("asin", 1, np.arcsin, 4.0),
    Intrinsic("acos", 1, np.arccos, 4.0),
    Intrinsic("atan", 1, np.arctan, 4.0),
    Intrinsic("sinh", 1, np.sinh, 5.0),
    Intrinsic("cosh", 1, np.cosh, 5.0),
    Intrinsic("asinh", 1, np.arcsinh, 6.0),
    Intrinsic("acosh", 1, np.arccosh, 6.0),
    Intrinsic("atanh", 1, np.arctanh, 6.0),
    Intrinsic("pow", 2, _pow, 16.0),
    Intrinsic("fma", 3, _fma),
    # Two adjacent Loads make a pair in one access of 32 bits.
    Intrinsic("pair", 2, _pair, result=dt.uint32, operands=(dt.bfloat16, dt.bfloat16)),
    # As the machine computes it: within a rounding of each sum; subnormal operands and results may count as 0.
    Intrinsic("dot2", 3, _dot2, 2.0, operands=(dt.float32, dt.uint32, dt.uint32)),
    Intrinsic("neg", 1, np.negative),  # flips the sign bit: -0.0 for 0.0
    Intrinsic("abs", 1, np.abs),
    Intrinsic("floor", 1, np.floor),
    Intrinsic("ceil", 1, np.ceil),
    Intrinsic("trunc", 1, np.trunc),
    Intrinsic("round", 1, np.rint),  # half to even
    Intrinsic("isnan", 1, np.isnan, predicate=True),
    Intrinsic("isinf", 1, np.isinf, predicate=True),
    Intrinsic("bitnot", 1, np.invert),
    *(
        Intrinsic(f"as_{d}", 1, partial(reinterpreted, kind=d), result=d, bits=True)
        for d in (*dt.ALL_DTYPES, *dt.STORAGE_DTYPES)
    ),
]
INTRINSICS: Mapping[str, Intrinsic] = MappingProxyType({i.name: i for i in _LIST})
