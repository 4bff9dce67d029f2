"""Comparisons of two tensors, broadcast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, const, select
from legato.arith.simplify import simplify
from legato.ir.types import Dim
from legato.ops._families import compare


def _on_dims(rule: Callable[[Dim, Dim], Expr]) -> Callable[[Dim, Dim], Dim]:
    """The comparison of dims, as 1 or 0: decided where it is the same for all that they may be."""
    return lambda a, b: simplify(select(rule(a, b), const(1), const(0)))


equal = compare("equal", np.equal, te.eq, value=_on_dims(te.eq), strings=True, doc="a == b.")
not_equal = compare("not_equal", np.not_equal, te.ne, value=_on_dims(te.ne), strings=True, doc="a != b.")
less = compare("less", np.less, te.lt, value=_on_dims(te.lt), doc="a < b.")
less_equal = compare("less_equal", np.less_equal, te.le, value=_on_dims(te.le), doc="a <= b.")
greater = compare("greater", np.greater, te.gt, value=_on_dims(te.gt), doc="a > b.")
greater_equal = compare("greater_equal", np.greater_equal, te.ge, value=_on_dims(te.ge), doc="a >= b.")
