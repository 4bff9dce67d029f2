"""Stages that are gathered from memory: those whose elements are read many times are stored, so that each is gathered
once.

A picture that is enlarged is the example: resized along its rows it is a stage of few rows, each of which serves many
of the result, which then reads memory as it lies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from legato.arith.expr import Expr
from legato.arith.prove import prove_equal
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.lower.access import depends, extent_of, stride
from legato.lower.traits import index_of, is_reduction, tensors_read
from legato.te.inline import inline, loads
from legato.te.order import in_order, reads
from legato.te.tensor import Axis, Stage, Tensor

__all__ = ["gathered_again"]

OFTEN = 2  # reads of each element that are worth storing it
MANY = 16  # places at which a stage is read: what is behind them is not looked at

Place = tuple[Expr, ...]


def gathered_again(tensor: Tensor, body: Expr, stored: Collection[Tensor]) -> Tensor | None:
    """The last stage that `tensor`, computed as `body` in the layout that is chosen, is better computed from if it is
    stored in the same order; None if there is none."""
    assert isinstance(tensor.stage, Stage)
    axes, order = tensor.stage.axes, tensor.layout.order
    if not order or all(stride(x, axes[order[-1]].var) is not None for x in loads(body)):
        return None
    last = order[-1]
    for t, places in _read(tensor, stored):
        if t.rank == tensor.rank and all(_times(t, place, axes, last) >= OFTEN for place in places):
            assert isinstance(t.stage, Stage)
            inner, along = inline(t.stage.body, stored), t.stage.axes[last].var
            if any(is_reduction(r) and r not in stored for r in tensors_read(inner)):
                continue
            if any(stride(x, along) is None for x in loads(inner)):
                return t
    return None


def _read(tensor: Tensor, stored: Collection[Tensor]) -> Iterator[tuple[Tensor, Collection[Place]]]:
    """The stages that `tensor` computes anew, those that are read first, and at which places it reads each."""
    read: dict[Tensor, dict[Place, None]] = {tensor: {index_of(tensor): None}}
    for t in (tensor, *reversed(in_order(reads(tensor), stored))):
        places = read.get(t)
        if places is None or is_reduction(t) or not isinstance(t.stage, Stage):
            continue
        if t is not tensor:
            yield t, places
        if len(places) > MANY:
            return
        for place in places:
            here = {a.var: i for a, i in zip(t.stage.axes, place, strict=True)}
            for x in loads(t.stage.body):
                if isinstance(x.buffer, Tensor):
                    read.setdefault(x.buffer, {})[tuple(substitute(i, here) for i in x.indices)] = None


def _times(t: Tensor, place: Place, axes: tuple[Axis, ...], last: int) -> float:
    """How often each element of `t`, read at `place`, is read along `axes`, 0 if not known; 0 also if memory is not
    read as it lies along axis `last`."""
    times = 1.0
    for d, (index, axis) in enumerate(zip(place, axes, strict=True)):
        if any(depends(index, other.var) for other in axes if other is not axis):
            return 0
        runs = _runs_along(index, axis)
        if runs and prove_equal(axis.extent, t.shape[d]):
            continue
        here, there = extent_of(axis.extent), extent_of(t.shape[d])
        if (d == last and not runs) or here is None or not there:
            return 0
        times *= here / there
    return times


def _runs_along(index: Expr, axis: Axis) -> bool:
    """True if `index` follows `axis` step by step."""
    return extent_of(simplify(substitute(index, {axis.var: axis.var + 1}) - index)) == 1
