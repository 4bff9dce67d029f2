"""Stages that are gathered from memory: those whose elements are read many times are stored, so that each is gathered
once.

A picture that is enlarged is the example: resized along its rows it is a stage of few rows, each of which serves many
of the result, which then reads memory as it lies.
"""

from __future__ import annotations

from collections.abc import Container

from legato.arith.expr import Expr, const
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.lower.access import depends, extent_of, stride
from legato.lower.group import stages
from legato.lower.traits import is_reduction, tensors_read
from legato.te.inline import inline, loads
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.expr import Load

__all__ = ["gathered_again"]

OFTEN = 2  # reads of each element that are worth storing it


def gathered_again(tensor: Tensor, stored: Container[Tensor]) -> Tensor | None:
    """The last stage that `tensor`, whose layout is chosen, is better computed from if it is stored in the same order;
    None if there is none."""
    assert isinstance(tensor.stage, Stage)
    if not tensor.layout.order:
        return None
    last = tensor.layout.order[-1]
    for t in reversed(stages([tensor])):
        if t is tensor or t in stored or t.rank != tensor.rank or is_reduction(t) or not isinstance(t.stage, Stage):
            continue
        inner = inline(t.stage.body, stored)
        if any(is_reduction(r) and r not in stored for r in tensors_read(inner)):
            continue
        if any(stride(x, t.stage.axes[last].var) is None for x in loads(inner)):
            body = inline(tensor.stage.body, _With(stored, t))
            reads = [x for x in loads(body) if x.buffer is t]
            if all(_times(x, tensor.stage.axes, last) >= OFTEN for x in reads):
                return t
    return None


class _With:
    """What is in `some`, and `one`."""

    def __init__(self, some: Container[Tensor], one: Tensor) -> None:
        self.some, self.one = some, one

    def __contains__(self, item: object) -> bool:
        return item is self.one or item in self.some


def _times(x: Load, axes: tuple[Axis, ...], last: int) -> float:
    """How often each element that `x` reads is read along `axes`, 0 if not known; 0 also if memory is not read as it
    lies along axis `last`."""
    times = 1.0
    for d, (index, axis) in enumerate(zip(x.indices, axes, strict=True)):
        if any(depends(index, other.var) for other in axes if other is not axis):
            return 0
        if _runs_along(index, axis):
            continue
        here, there = extent_of(axis.extent), extent_of(x.buffer.shape[d])
        if d == last or here is None or not there:
            return 0
        times *= here / there
    return times


def _runs_along(index: Expr, axis: Axis) -> bool:
    """True if `index` follows `axis` step by step."""
    return extent_of(simplify(substitute(index, {axis.var: axis.var + const(1)}) - index)) == 1
