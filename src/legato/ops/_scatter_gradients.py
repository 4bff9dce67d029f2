"""Gradients of scatter_elements and scatter_nd: what reads again where they have written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.arith.expr import Const, const, max_
from legato.arith.simplify import simplify
from legato.infer.builder import Builder
from legato.ir.attrs import make_attrs
from legato.ir.expr import Call, Expr
from legato.ir.op import Op
from legato.ops._gradients import Contribution, dtype_of, extent_of, extents, in_shape, only, shape_of
from legato.ops._indexing import covers
from legato.ops._rules import product

__all__ = ["of_elements", "of_nd"]

Read = Callable[[Expr], Expr]


class _Scatter:
    """A call of either operator: how to do it again with other values, and how to read at its places.

    read(x): for each update the element of `x`, of the data's shape, at its place; anything where there is none.
    kept: for each update whether it has a place.
    """

    def __init__(self, b: Builder, call: Call, read: Read, kept: Expr) -> None:
        self.b, self.call, self.read, self.kept = b, call, read, kept
        self.data, self.indices, self.updates = call.args
        self.dtype = dtype_of(call)

    def again(self, data: Expr, updates: Expr, reduction: str) -> Expr:
        """The same places, written by other updates in another way."""
        op, name = self.call.op, "reduction" if "reduction" in self.call.attrs else "mode"
        assert isinstance(op, Op)
        return self.b.call_op(op, [data, self.indices, updates], make_attrs(op, {**self.call.attrs, name: reduction}))

    def number(self, value: float) -> Expr:
        """A scalar."""
        return self.b.constant(value, self.dtype)

    def grad(self, reduction: str, dy: Expr) -> list[Contribution]:
        """What flows to the data, the subscripts and the updates."""
        rules = {"add": self._add, "update": self._update, "mul": self._mul}
        dx, du = rules.get(reduction, self._extreme)(dy)
        return [dx, None, du]

    def _add(self, dy: Expr) -> tuple[Expr, Expr]:
        return dy, only(self.b, self.kept, self.read(dy))

    def _update(self, dy: Expr) -> tuple[Expr, Expr]:
        """Numbers in place of updates say which is the last at each place."""
        b, shape = self.b, shape_of(self.updates)
        (count,) = extents((product(shape),))
        numbers = in_shape(b, b.arange(stop=count, dtype="int64"), shape)
        nobody = b.full(b.constant(-1, "int64"), shape=extents(shape_of(self.data)))
        last = self.again(nobody, numbers, "update")
        stays = b.logical_and(self.kept, b.equal(self.read(last), numbers))
        old = b.less(last, b.constant(0, "int64"))
        return only(self.b, old, dy), only(self.b, stays, self.read(dy))

    def _mul(self, dy: Expr) -> tuple[Expr, Expr]:
        """The product of all factors at a place but one, which may be 0."""
        b, zero = self.b, self.number(0.0)
        others, zeros = (
            self.again(f(self.data), f(self.updates), how) for f, how in ((self._not_0, "mul"), (self._is_0, "add"))
        )

        def but(x: Expr, others: Expr, zeros: Expr) -> Expr:
            alone = only(self.b, b.equal(zeros, self.number(1.0)), others)
            return b.where(
                b.equal(x, zero), alone, only(self.b, b.equal(zeros, zero), b.divide(others, self._not_0(x)))
            )

        dx = b.multiply(dy, but(self.data, others, zeros))
        du = b.multiply(self.read(dy), but(self.updates, self.read(others), self.read(zeros)))
        return dx, only(self.b, self.kept, du)

    def _not_0(self, x: Expr) -> Expr:
        return self.b.where(self.b.equal(x, self.number(0.0)), self.number(1.0), x)

    def _is_0(self, x: Expr) -> Expr:
        return self.b.cast(self.b.equal(x, self.number(0.0)), dtype=self.dtype)

    def _extreme(self, dy: Expr) -> tuple[Expr, Expr]:
        """Equal elements share it, or NaNs."""
        b, y = self.b, self.call
        mine = b.logical_or(b.equal(self.data, y), b.isnan(self.data))
        is_chosen = b.logical_or(b.equal(self.updates, self.read(y)), b.isnan(self.updates))
        theirs = b.logical_and(self.kept, is_chosen)
        count = self.again(b.cast(mine, dtype=self.dtype), b.cast(theirs, dtype=self.dtype), "add")
        share = b.divide(dy, count)
        return only(self.b, mine, share), only(self.b, theirs, self.read(share))


def _is_inside(b: Builder, subscripts: Expr, data: Expr, axis: int) -> Expr:
    """Whether each of `subscripts` is one of a dimension of `data`; those below 0 count from the end."""
    at, extent = b.cast(subscripts, dtype="int64"), extent_of(b, data, axis)
    return b.logical_and(b.less_equal(b.negative(extent), at), b.less(at, extent))


def of_elements(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of scatter_elements."""
    data, indices, _ = call.args
    axis, have, asked = call.attrs.axis % len(shape_of(data)), shape_of(data), shape_of(indices)
    beyond = [d for d in range(len(have)) if d != axis and not covers(have[d], asked[d])]
    kept = _is_inside(b, indices, data, axis)
    for d in beyond:
        (count,) = extents((asked[d],))
        places = b.less(b.arange(stop=count, dtype="int64"), extent_of(b, data, d))
        line = [n if k == d else const(1) for k, n in enumerate(asked)]
        kept = b.logical_and(kept, in_shape(b, places, line))
    more = [simplify(max_(m - n, const(0))) if d in beyond else const(0)
            for d, (n, m) in enumerate(zip(have, asked, strict=True))]  # fmt: skip
    width = tuple((0, w) for w in extents(more))

    def read(x: Expr) -> Expr:
        whole = b.nn.pad(x, 0, pad_width=width) if beyond else x
        return b.gather(whole, indices, axis=axis)

    return _Scatter(b, call, read, kept).grad(call.attrs.reduction, dy)


def of_nd(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of scatter_nd."""
    data, indices, updates = call.args
    depth, *outer = shape_of(indices)
    assert isinstance(depth, Const)
    kept: Any = None
    for d in range(int(depth.value)):
        row = b.take(indices, b.constant(d, "int64"), axis=0, mode="fast")
        here = _is_inside(b, row, data, d)
        kept = here if kept is None else b.logical_and(kept, here)
    if kept is None:
        kept = b.constant(True)
    else:
        kept = in_shape(b, kept, [*outer, *(const(1),) * (len(shape_of(updates)) - len(outer))])
    return _Scatter(b, call, lambda x: b.gather_nd(x, indices), kept).grad(call.attrs.mode, dy)
