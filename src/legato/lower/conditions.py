"""Conditions of stages that always hold, and padding recognised by its structure."""

from __future__ import annotations

from collections.abc import Iterable

from legato.arith.expr import Binary, Const, Expr, Op, Select, le, lt, select
from legato.arith.interval import Interval
from legato.arith.simplify import Simplifier, simplify
from legato.arith.substitute import nodes, rewrite
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.expr import Load

__all__ = ["Pad", "conjuncts", "detect_pad", "settled", "simplified"]


def settled(e: Expr, axes: Iterable[Axis]) -> Expr:
    """`e` with the conditions decided that hold, or do not, everywhere on `axes`: windows that stay inside, say."""
    if not any(isinstance(n, Select) for n in nodes(e)):
        return e
    known = _simplifier(axes)

    def settle(node: Expr) -> Expr | None:
        if not isinstance(node, Select) or any(isinstance(n, Load) for n in nodes(node.cond)):
            return None
        cond = known(node.cond)
        return select(cond, node.a, node.b) if isinstance(cond, Const) else None

    return rewrite(e, settle)


def simplified(e: Expr, axes: Iterable[Axis]) -> Expr:
    """`e` with its subscripts and conditions simplified, for values of `axes` within their extents."""
    return _simplifier(axes)(e)


def _simplifier(axes: Iterable[Axis]) -> Simplifier:
    ranges, limits = {}, {}
    for axis in axes:
        if isinstance(axis.extent, Const):
            ranges[axis.var] = Interval(0, int(axis.extent.value) - 1)
        else:
            limits[axis.var] = axis.extent
    return Simplifier(ranges, limits)


class Pad:
    """A stage that surrounds `source` with `value`: `before[d]` and `after[d]` elements along dimension d."""

    __slots__ = ("after", "before", "source", "value")

    def __init__(self, source: Tensor, before: tuple[int, ...], after: tuple[int, ...], value: float) -> None:
        self.source, self.before, self.after, self.value = source, before, after, value


def detect_pad(tensor: Tensor) -> Pad | None:
    """How `tensor` pads another one, recognised from the structure of its stage; None if it does not.

    The body must be select(i ≥ before and i < before + extent, source[i − before], constant), for literal widths.
    """
    stage = tensor.stage
    if not isinstance(stage, Stage) or stage.reduction is not None or not isinstance(stage.body, Select):
        return None
    inside, read, fill = stage.body.cond, stage.body.a, stage.body.b
    if not isinstance(read, Load) or not isinstance(fill, Const) or not isinstance(read.buffer, Tensor):
        return None
    if len(read.indices) != len(stage.axes):
        return None
    before, after, wanted = [], [], set()
    source = read.buffer
    for axis, index, extent in zip(stage.axes, read.indices, source.shape, strict=True):
        front = simplify(axis.var - index)
        back = simplify(axis.extent - extent - front)
        if not isinstance(front, Const) or not isinstance(back, Const) or front.value < 0 or back.value < 0:
            return None
        before.append(int(front.value))
        after.append(int(back.value))
        wanted |= {le(front, axis.var)} if front.value else set()
        wanted |= {lt(axis.var, simplify(extent + front))} if back.value else set()
    if {simplify(c) for c in conjuncts(inside)} != {simplify(c) for c in wanted}:
        return None
    return Pad(source, tuple(before), tuple(after), float(fill.value))


def conjuncts(cond: Expr) -> list[Expr]:
    """The conditions that `cond` joins by and; none where it is always true."""
    if isinstance(cond, Binary) and cond.op is Op.AND:
        return [*conjuncts(cond.a), *conjuncts(cond.b)]
    return [] if isinstance(cond, Const) and cond.value is True else [cond]
