"""Finds what of a group only says where elements lie (`lower.moves`), from its stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from legato.arith.expr import Binary, Const, Expr, Op, Select, const
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes
from legato.lower.access import depends
from legato.lower.expr_data import to_data
from legato.lower.group import Group, stages
from legato.lower.moves import Cut, Joint, Moves
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.expr import Load

__all__ = ["joints", "moves"]


def moves(group: Group, number: Callable[[Any], int]) -> Moves:
    """What `group` puts together and cuts out; `number` gives the numbers of its dims."""
    found = joints(group)
    places = {t: n for n, t in enumerate(found)}
    numbers = {t: n for n, t in enumerate(group.inputs)}
    outputs = tuple(places[t] if t in places else _cut(t, numbers, number) for t in group.outputs)
    return Moves(tuple(found.values()), outputs)


def joints(group: Group) -> dict[Tensor, Joint]:
    """The stages of `group` that put inputs together."""
    numbers = {t: n for n, t in enumerate(group.inputs)}
    found = {t: _joint(t, numbers) for t in stages(group.outputs)}
    return {t: joint for t, joint in found.items() if joint is not None}


def _joint(tensor: Tensor, numbers: Mapping[Any, int]) -> Joint | None:
    """How `tensor` puts inputs together: a select per part but the last, in their order along one axis."""
    stage = tensor.stage
    if not isinstance(stage, Stage) or stage.reduction is not None or not isinstance(stage.body, Select):
        return None
    by_var = {a.var: n for n, a in enumerate(stage.axes)}
    reads: list[tuple[Expr, int, Expr]] = []  # what is read, the axis, where it ends
    body: Expr = stage.body
    while isinstance(body, Select):
        end = _end_of(body.cond, by_var)
        if end is None:
            return None
        reads.append((body.a, *end))
        body = body.b
    axis = reads[0][1]
    start: Expr = const(0)
    parts: list[int] = []
    for read, along, stop in (*reads, (body, axis, stage.axes[axis].extent)):
        if along != axis or not isinstance(read, Load) or read.buffer not in numbers:
            return None
        if not _is_part(read, stage.axes, axis, start, stop):
            return None
        parts.append(numbers[read.buffer])
        start = stop
    return Joint(tuple(parts), axis)


def _end_of(cond: Expr, by_var: Mapping[Any, int]) -> tuple[int, Expr] | None:
    """(axis, stop) of the condition axis < stop."""
    if not isinstance(cond, Binary) or cond.op is not Op.LT or cond.a not in by_var:
        return None
    return by_var[cond.a], cond.b


def _is_part(read: Load, axes: tuple[Axis, ...], axis: int, start: Expr, stop: Expr) -> bool:
    """True if `read` walks along all of its buffer while `axis` goes from `start` to `stop`."""
    if len(read.indices) != len(axes):
        return False
    for n, (index, a, extent) in enumerate(zip(read.indices, axes, read.buffer.shape, strict=True)):
        first, length = (start, stop - start) if n == axis else (const(0), a.extent)
        if not _is_zero(a.var - index - first) or not _is_zero(extent - length):
            return False
    return True


def _cut(tensor: Tensor, numbers: Mapping[Any, int], number: Callable[[Any], int]) -> Cut | None:
    """How `tensor` is a block of an input."""
    stage = tensor.stage
    if not isinstance(stage, Stage) or stage.reduction is not None or not isinstance(stage.body, Load):
        return None
    read = stage.body
    if read.buffer not in numbers or len(read.indices) != len(stage.axes):
        return None
    begin = [simplify(index - a.var) for index, a in zip(read.indices, stage.axes, strict=True)]
    if any(depends(b, a.var) for b in begin for a in stage.axes) or any(_reads(b) for b in begin):
        return None
    return Cut(numbers[read.buffer], tuple(to_data(b, number) for b in begin))


def _reads(e: Expr) -> bool:
    return any(isinstance(x, Load) for x in nodes(e))


def _is_zero(e: Expr) -> bool:
    difference = simplify(e)
    return isinstance(difference, Const) and difference.value == 0
