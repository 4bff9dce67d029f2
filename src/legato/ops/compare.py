"""Comparisons of two tensors, broadcast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from legato.arith.expr import Const, const
from legato.ir.types import Dim
from legato.ops._families import compare
from legato.te import math as te


def _decided(rule: Callable[[int, int], bool]) -> Callable[[Dim, Dim], Dim | None]:
    """The comparison of dims where both are literal, or are the same expression."""

    def value(a: Dim, b: Dim) -> Dim | None:
        if a is b:
            return const(int(rule(0, 0)))
        if isinstance(a, Const) and isinstance(b, Const):
            return const(int(rule(int(a.value), int(b.value))))
        return None

    return value


equal = compare("equal", np.equal, te.eq, value=_decided(lambda a, b: a == b), doc="a == b.")
not_equal = compare("not_equal", np.not_equal, te.ne, value=_decided(lambda a, b: a != b), doc="a != b.")
less = compare("less", np.less, te.lt, value=_decided(lambda a, b: a < b), doc="a < b.")
less_equal = compare("less_equal", np.less_equal, te.le, value=_decided(lambda a, b: a <= b), doc="a <= b.")
greater = compare("greater", np.greater, te.gt, value=_decided(lambda a, b: a > b), doc="a > b.")
greater_equal = compare("greater_equal", np.greater_equal, te.ge, value=_decided(lambda a, b: a >= b), doc="a >= b.")
