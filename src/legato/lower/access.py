"""How loop bodies touch memory: strides along loop variables, and which dims of a buffer follow which axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from legato.arith.expr import Const, Expr, Var
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute, variables
from legato.te.tensor import Axis
from legato.tir.buffer import Buffer
from legato.tir.expr import Load

__all__ = ["depends", "extent_of", "follows", "is_unit", "static_bytes", "stride"]


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
