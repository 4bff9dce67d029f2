"""How loop bodies touch memory: strides along loop variables, and which dims of a buffer follow which axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from legato.arith.expr import Const, Expr, Var, const
from legato.arith.simplify import simplify
from legato.arith.substitute import rewrite, substitute, variables
from legato.te.inline import loads
from legato.te.tensor import Axis
from legato.tir.buffer import Buffer
from legato.tir.expr import Load

__all__ = ["depends", "extent_of", "follows", "is_unit", "lie_together", "static_bytes", "stride"]


def extent_of(e: Expr) -> int | None:
    """The value of a literal extent."""
    return int(e.value) if isinstance(e, Const) else None


def is_unit(e: Expr) -> bool:
    """True for the literal extent 1."""
    return extent_of(e) == 1


def static_bytes(b: Buffer) -> int:
    """Bytes of a buffer, dims that are not literal taken as 1."""
    return b.dtype.bytes * math.prod(int(d.value) for d in b.shape if isinstance(d, Const))


def depends(e: Expr, var: Var) -> bool:
    """True if `var` occurs in `e`."""
    return var in variables(e)


def stride(load: Load, var: Var) -> int | None:
    """Elements between what `load` reads at `var` and at `var + 1`; None unless it is one literal everywhere."""
    if not depends(load, var):
        return 0
    here = load.buffer.offset(load.indices)
    step = simplify(substitute(here, {var: var + 1}) - here)
    return int(step.value) if isinstance(step, Const) else None


def follows(load: Load, axes: Sequence[Axis]) -> dict[int, int]:
    """Which dimension of the buffer each axis walks along, where it occurs in the index of just one."""
    found: dict[int, int] = {}
    for n, axis in enumerate(axes):
        where = [d for d, index in enumerate(load.indices) if depends(index, axis.var)]
        if len(where) == 1:
            found[n] = where[0]
    return found


def lie_together(out: tuple[Buffer, Sequence[Expr]], values: Sequence[Expr], outer: Axis, inner: Axis) -> bool:
    """True if whatever follows one of the axes runs through memory along both, as along one: `out`, which is written,
    and what `values` read; they depend on the axes in no other way."""
    accesses = [out, *((x.buffer, x.indices) for value in values for x in loads(value))]
    if not all(_follows_both_or_none(b, indices, outer, inner) for b, indices in accesses):
        return False
    computed = [rewrite(value, lambda e: const(0, e.dtype) if isinstance(e, Load) else None) for value in values]
    return not {outer.var, inner.var} & set(variables(*computed))


def _follows_both_or_none(buffer: Buffer, indices: Sequence[Expr], outer: Axis, inner: Axis) -> bool:
    where = [d for d in buffer.layout.order if {outer.var, inner.var} & set(variables(indices[d]))]
    if not where:
        return True
    if [indices[d] for d in where] != [outer.var, inner.var]:
        return False
    first, second = where
    is_next = buffer.layout.order.index(second) == buffer.layout.order.index(first) + 1
    return is_next and buffer.layout.is_dense_along(second) and buffer.shape[second] is inner.extent
