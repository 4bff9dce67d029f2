"""Gradients of recurrent layers: back through time, as one linear scan between operators for all steps at once.

From the states of every step, which are known, the gates of all steps come from one product. With their derivatives,
the cotangent of the states before a step is linear in that of the states behind it: `linear_scan` runs these from the
last step to the first. What it gives, times derivatives, are the cotangents of the gates' inputs, and one product of
these with the states is that of the weight.

Everything here is in the order of steps: of reversed sequences, and of those that have ended, `_Layer` takes care.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from legato.arith.expr import const
from legato.base import dtype as dt
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ir.types import Dim, TupleType
from legato.ops._activations import ACTIVATIONS
from legato.ops._gradients import Contribution, dtype_of, extent_of, extents, in_shape, narrowed, shape_of, widened
from legato.ops.linear_scan import after_last, before_steps

__all__ = ["gru_gradient", "lstm_gradient", "rnn_gradient"]

Row = Sequence[Expr | None]  # coefficients; None: 0


class _Layer:
    """What all cells share: their operands in the order of steps, products with the weight, the scan."""

    def __init__(self, b: Builder, call: Call, gates: int, states: int) -> None:
        self.b, self.call, self.a, self.gates = b, call, call.attrs, gates
        gates_in, recurrent, *rest = call.args
        self.initial = [widened(b, s) for s in rest[:states]]
        more = rest[states]
        count = len(more.ty.fields) if isinstance(more.ty, TupleType) else 0
        self.more = [b.get(more, n) for n in range(count)]
        self.weight = widened(b, recurrent)
        self.steps, self.batch, _ = shape_of(gates_in)
        self.units = shape_of(self.initial[0])[1]
        (self.count,) = extents([self.steps])
        self._masks()
        self.x = self.split(self._running(self.ordered(widened(b, gates_in))))

    # Sequences

    def _masks(self) -> None:
        """`runs` [steps, batch, 1]: 1 where a step of a sequence runs, and `rests`, 1 elsewhere; None: all run."""
        b = self.b
        self.runs: Expr | None = None
        self.rests: Expr | None = None
        if not self.a.lengths:
            return
        stop = extent_of(b, self.call.args[0], 0)
        self.number = b.expand_dims(b.arange(start=0, stop=self.count, step=1, dtype=dt.int64), axis=1)
        self.lengths = b.minimum(b.maximum(b.cast(self.more[-1], dtype=dt.int64), 0), stop)
        self.is_on = b.less(self.number, self.lengths)
        self.runs = b.expand_dims(b.cast(self.is_on, dtype=dtype_of(self.weight)), axis=2)
        self.rests = b.subtract(1.0, self.runs)

    def ordered(self, x: Expr) -> Expr:
        """[steps, batch, …] with its steps as they run, or back again."""
        b = self.b
        if not self.a.reverse:
            return x
        if not self.a.lengths:
            return b.reverse(x, axis=0)
        back = b.subtract(b.subtract(self.lengths, 1), self.number)
        place = b.where(self.is_on, back, b.broadcast_to(self.number, shape=extents([self.steps, self.batch])))
        swapped = b.take(b.transpose(x, axes=(1, 0, 2)), b.transpose(place, axes=(1, 0)), axis=1, batch_dims=1)
        return b.transpose(swapped, axes=(1, 0, 2))

    def _running(self, x: Expr) -> Expr:
        """`x` without what stands behind the ends, which may be anything, not even finite."""
        if self.runs is None:
            return x
        return self.b.where(self.b.expand_dims(self.is_on, axis=2), x, self.b.zeros_like(x))

    def masked(self, x: Expr | None) -> Expr | None:
        """`x` where steps run, and 0."""
        return x if x is None or self.runs is None else self.b.multiply(x, self.runs)

    # Gates

    def split(self, x: Expr) -> list[Expr]:
        """[steps, batch, gates · units] by gates."""
        if self.gates == 1:
            return [x]
        parts = self.b.split(x, indices_or_sections=self.gates, axis=2)
        return [self.b.get(parts, n) for n in range(self.gates)]

    def product(self, state: Expr, weight: Expr) -> Expr:
        """state · weightᵀ for all steps."""
        rows = self.b.nn.dense(self.rows(state), weight)
        return in_shape(self.b, rows, (self.steps, self.batch, shape_of(weight)[0]))

    def rows(self, x: Expr) -> Expr:
        """[steps, batch, n] as [steps · batch, n]."""
        return in_shape(self.b, x, (self.steps * self.batch, shape_of(x)[2]))

    def apply(self, n: int, x: Expr, *, clip: bool = True) -> tuple[Expr, Expr]:
        """Activation `n` of x, and its derivative."""
        b, a, limit = self.b, self.a, self.a.clip if clip else 0.0
        inside = None
        if limit:
            inside = b.cast(b.less_equal(b.abs(x), limit), dtype=dtype_of(x))
            x = b.clip(x, a_min=-limit, a_max=limit)
        function = ACTIVATIONS[a.activations[n]]
        value = function.expr(b, x, a.alphas[n], a.betas[n])
        slope = function.slope(b, x, value, a.alphas[n], a.betas[n])
        return value, slope if inside is None else b.multiply(slope, inside)

    def before(self, initial: Expr, states: Expr) -> Expr:
        """The states that steps begin with, of those after them."""
        return before_steps(self.b, initial, states, reverse=False)

    # The scan

    def stacked(self, rows: Sequence[Row]) -> Expr:
        """Coefficients [steps, n, k, batch, units] of n rows of k."""
        b = self.b
        given = [shape_of(e) for row in rows for e in row if e is not None]
        zero = self.filled(0, *given[:1])
        lines = [b.stack([zero if e is None else e for e in row], axis=1) for row in rows]
        return b.stack(lines, axis=1)

    def filled(self, value: int, shape: Sequence[Dim] | None = None) -> Expr:
        """0, or 1, for every state of every step."""
        fill = self.b.ones if value else self.b.zeros
        shape = (self.steps, self.batch, self.units) if shape is None else shape
        return fill(shape=extents(shape), dtype=dtype_of(self.weight))

    def scanned(self, last: Sequence[Expr], each: Sequence[Expr], pre: Expr, weight: Expr, carry: Expr) -> Expr:
        """[steps, states, batch, units]: cotangents of what steps begin with.

        last, each: what is given for the last states, and for those after each step; weight: [units, terms · units].
        """
        b, terms = self.b, shape_of(pre)[1]
        units = self.units
        matrix = in_shape(b, weight, (const(1), units, terms, units))
        one = self.filled(1, (shape_of(pre)[0], self.batch, self.units))
        post = self.stacked([[one], *([None] for _ in each[1:])])
        return b.nn.linear_scan(b.stack(last, axis=0), b.stack(each, axis=1), pre, matrix, post, carry, reverse=True)

    def rested(self, carry: Expr | None) -> Expr | None:
        """A state's share of itself: `carry` where steps run, 1 where they do not."""
        runs = self.masked(carry)
        if self.rests is None:
            return runs
        ones = self.b.multiply(self.filled(1), self.rests)
        return ones if runs is None else self.b.add(runs, ones)

    # Results

    def kept(self, dy: Expr) -> Expr:
        """The cotangent of what is kept of every step."""
        found = self.masked(self.ordered(widened(self.b, dy)))
        assert found is not None
        return found

    def behind(self, last: Expr, found: Expr, each: Expr) -> Expr:
        """Cotangents of states after steps: given, and found for what the next steps begin with."""
        return self.b.add(each, before_steps(self.b, last, found, reverse=True))

    def first(self, last: Expr, found: Expr) -> Expr:
        """The cotangent of an initial state."""
        return after_last(self.b, last, found, reverse=True)

    def state(self, found: Expr, n: int) -> Expr:
        """State `n` of [steps, states, batch, units]."""
        return self.b.squeeze(self.b.strided_slice(found, begin=(n,), end=(n + 1,), axes=(1,)), axis=(1,))

    def weighed(self, dgates: Expr, state: Expr) -> Expr:
        """The cotangent of the rows of a weight: products of its results' cotangents with states, summed."""
        return self.b.nn.matmul(self.rows(dgates), self.rows(state), transpose_a=True)

    def given(self, dx: Expr, dweight: Expr, initial: Sequence[Expr], more: Sequence[Expr]) -> list[Contribution]:
        """The contributions, in the dtypes of the arguments."""
        b, args = self.b, self.call.args
        found = (self.ordered(dx), dweight, *initial)
        rest = (*(narrowed(b, g, m) for g, m in zip(more, self.more, strict=False)), *(None,) * self.a.lengths)
        return [*(narrowed(b, g, arg) for g, arg in zip(found, args, strict=False)), rest]


def _sum_of_steps(b: Builder, x: Expr) -> Expr:
    return b.sum(x, axis=(0, 1))


# ------------------------------------------------------------------------------- LSTM


def lstm_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """Of gates that do not look at the cells, these follow by a recurrence; otherwise the call is to give them."""
    s = _Layer(b, call, 4, 2)
    a = call.attrs
    outputs, cells = s.ordered(widened(b, b.get(call, 0))), _known_cells(b, s)
    h, c = s.before(s.initial[0], outputs), None if cells is None else s.before(s.initial[1], cells)
    peep = [_peephole(b, s, n) if a.peepholes else None for n in range(3)]
    products = s.split(s.product(h, s.weight))

    def gate(n: int, which: int, state: Expr | None = None, weight: Expr | None = None) -> tuple[Expr, Expr]:
        value = b.add(s.x[n], products[n])
        if weight is not None:
            value = b.add(value, b.multiply(state, weight))
        return s.apply(which, value)

    (i, di), (g, dg) = gate(0, 0, c, peep[0]), gate(3, 1)
    f, df = (b.subtract(1.0, i), None) if a.input_forget else gate(2, 0, c, peep[2])
    if cells is None or c is None:
        cells = _cells(b, s, f, b.multiply(i, g))
        c = s.before(s.initial[1], cells)
    o, do = gate(1, 0, cells, peep[1])
    out, dout = s.apply(2, cells, clip=False)
    # Of the gates' inputs, by the cotangents of the hidden state (o) and of the cell as a whole (i, f, g).
    by_o = b.multiply(out, do)
    by_i = b.multiply(b.subtract(g, c) if a.input_forget else g, di)
    by_f, by_g = None if df is None else b.multiply(c, df), b.multiply(i, dg)
    into_cell = _plus(b, b.multiply(o, dout), peep[1], by_o)
    stays = _plus(b, _plus(b, f, peep[0], by_i), peep[2], by_f)
    rows: list[Row] = [
        [_times(b, by, into_cell), by] if n != 1 else [by_o, None] for n, by in enumerate((by_i, by_o, by_f, by_g))
    ]
    pre = s.stacked([[s.masked(e) for e in row] for row in rows])
    carry = s.stacked([[s.rested(None), None], [s.masked(b.multiply(stays, into_cell)), s.rested(stays)]])
    last = [widened(b, b.get(dy, n)) for n in (1, 2)]
    each = [s.kept(b.get(dy, 0)), s.kept(b.get(dy, 3)) if a.cells else s.filled(0)]
    found = s.scanned(last, each, pre, b.transpose(s.weight, axes=(1, 0)), carry)
    both = [s.behind(last[n], s.state(found, n), each[n]) for n in (0, 1)]
    by_gate = [_dot(b, [s.masked(e) for e in row], both) for row in rows]
    gates = [s.filled(0) if d is None else d for d in by_gate]
    dx = b.concatenate(*gates, axis=2)
    more = []
    if a.peepholes:
        seen = zip(gates, (c, cells, c), strict=False)
        more.append(b.concatenate(*(_sum_of_steps(b, b.multiply(d, v)) for d, v in seen), axis=0))
    initial = [s.first(last[n], s.state(found, n)) for n in (0, 1)]
    return s.given(dx, s.weighed(dx, h), initial, more)


def _known_cells(b: Builder, s: _Layer) -> Expr | None:
    """The cells after each step that the call gives, or would give."""
    call, a = s.call, s.a
    if not a.cells and not a.peepholes:
        return None
    known = call if a.cells else b.call("nn.lstm_scan", *call.args, **{**_items(a), "cells": True})
    return s.ordered(widened(b, b.get(known, 3)))


def _cells(b: Builder, s: _Layer, forget: Expr, added: Expr) -> Expr:
    """The cells after each step of forget · cell + added, by a recurrence that begins one step before."""
    rest, new = s.rested(forget), s.masked(added)
    first = b.expand_dims(s.initial[1], axis=0)
    found = b.linear_recurrence(b.concatenate(first, rest, axis=0), b.concatenate(first, new, axis=0), axis=0)
    (end,) = extents([s.steps + 1])
    return b.strided_slice(found, begin=(1,), end=(end,), axes=(0,))


def _items(a: Any) -> dict[str, Any]:
    return {name: getattr(a, name) for name in type(a).__dataclass_fields__}


def _peephole(b: Builder, s: _Layer, n: int) -> Expr:
    """The vector of gate `n` [units]."""
    begin, end = extents([s.units * n, s.units * (n + 1)])
    return b.strided_slice(widened(b, s.more[0]), begin=(begin,), end=(end,), axes=(0,))


def _times(b: Builder, left: Expr | None, right: Expr | None) -> Expr | None:
    return None if left is None or right is None else b.multiply(left, right)


def _plus(b: Builder, x: Expr, factor: Expr | None, by: Expr | None) -> Expr:
    """x + factor · by."""
    more = _times(b, by, factor)
    return x if more is None else b.add(x, more)


def _dot(b: Builder, row: Row, values: Sequence[Expr]) -> Expr | None:
    total: Expr | None = None
    for e, v in zip(row, values, strict=True):
        part = _times(b, e, v)
        total = part if total is None else total if part is None else b.add(total, part)
    return total


# ------------------------------------------------------------------------------- RNN


def rnn_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """h = f(x + h · recurrentᵀ)."""
    s = _Layer(b, call, 1, 1)
    outputs = s.ordered(widened(b, b.get(call, 0)))
    h = s.before(s.initial[0], outputs)
    _, slope = s.apply(0, b.add(s.x[0], s.product(h, s.weight)))
    by = s.masked(slope)
    last, each = widened(b, b.get(dy, 1)), s.kept(b.get(dy, 0))
    rest = s.rested(None)
    carry = s.stacked([[rest]])
    found = s.state(s.scanned([last], [each], s.stacked([[by]]), b.transpose(s.weight, axes=(1, 0)), carry), 0)
    dx = b.multiply(by, s.behind(last, found, each))
    return s.given(dx, s.weighed(dx, h), [s.first(last, found)], [])


# ------------------------------------------------------------------------------- GRU


def gru_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """Where the reset gate scales the product, a step has one product; where it scales the state, two, as two steps."""
    s = _Layer(b, call, 3, 1)
    outputs = s.ordered(widened(b, b.get(call, 0)))
    h = s.before(s.initial[0], outputs)
    last, each = widened(b, b.get(dy, 1)), s.kept(b.get(dy, 0))
    return (_reset_after if call.attrs.reset_after else _reset_before)(b, s, h, last, each)


def _reset_after(b: Builder, s: _Layer, h: Expr, last: Expr, each: Expr) -> list[Contribution]:
    products = s.split(s.product(h, s.weight))
    (z, dz), (r, dr) = (s.apply(0, b.add(s.x[n], products[n])) for n in (0, 1))
    inner = b.add(products[2], widened(b, s.more[0]))
    n, dn = s.apply(1, b.add(s.x[2], b.multiply(r, inner)))
    by_n = b.multiply(b.subtract(1.0, z), dn)
    by = [b.multiply(b.subtract(h, n), dz), b.multiply(b.multiply(by_n, inner), dr), b.multiply(by_n, r)]
    pre = s.stacked([[s.masked(e)] for e in by])
    found = s.scanned([last], [each], pre, b.transpose(s.weight, axes=(1, 0)), s.stacked([[s.rested(z)]]))
    found = s.state(found, 0)
    dh = s.masked(s.behind(last, found, each))
    into = [b.multiply(e, dh) for e in by]  # the gates, and the product of the hidden one
    dx = b.concatenate(*into[:2], b.multiply(by_n, dh), axis=2)
    dweight = s.weighed(b.concatenate(*into, axis=2), h)
    return s.given(dx, dweight, [s.first(last, found)], [_sum_of_steps(b, into[2])])


def _reset_before(b: Builder, s: _Layer, h: Expr, last: Expr, each: Expr) -> list[Contribution]:
    """Two steps of the scan for each: through the hidden gate's product to (cotangent of the reset state, that of the
    state), then through the others'."""
    (units,) = extents([s.units])
    split = (2 * units,)
    gates_weight = b.strided_slice(s.weight, begin=(0,), end=split, axes=(0,))
    hidden_weight = b.strided_slice(s.weight, begin=split, end=(3 * units,), axes=(0,))
    products = s.product(h, gates_weight)
    halves = b.split(products, indices_or_sections=2, axis=2)
    (z, dz), (r, dr) = (s.apply(0, b.add(s.x[n], b.get(halves, n))) for n in (0, 1))
    reset = b.multiply(r, h)
    n, dn = s.apply(1, b.add(s.x[2], s.product(reset, hidden_weight)))
    by_z, by_r = s.masked(b.multiply(b.subtract(h, n), dz)), b.multiply(h, dr)
    by_n = s.masked(b.multiply(b.subtract(1.0, z), dn))
    one, zero = s.filled(1), s.filled(0)
    pre = _interleaved(
        b,
        s,
        s.stacked([[None, by_z], [by_r, None], [None, zero]]),
        s.stacked([[None, zero], [None, zero], [by_n, None]]),
    )
    carry = _interleaved(b, s, s.stacked([[r, s.rested(z)], [None, None]]), s.stacked([[None, None], [one, None]]))
    begun = [_interleaved(b, s, zero, each), _interleaved(b, s, zero, zero)]
    nothing = s.filled(0, (s.batch, s.units))
    both = s.scanned([last, nothing], begun, pre, b.transpose(s.weight, axes=(1, 0)), carry)
    found, dreset, dh = (_every(b, s, s.state(both, k), odd=odd) for k, odd in ((0, False), (0, True), (1, True)))
    gates = [b.multiply(by_z, dh), b.multiply(by_r, dreset), b.multiply(by_n, dh)]
    dx = b.concatenate(*gates, axis=2)
    dweight = b.concatenate(s.weighed(b.concatenate(*gates[:2], axis=2), h), s.weighed(gates[2], reset), axis=0)
    return s.given(dx, dweight, [s.first(last, found)], [])


def _interleaved(b: Builder, s: _Layer, even: Expr, odd: Expr) -> Expr:
    """[2 · steps, …] of what stands at even and at odd places."""
    return in_shape(b, b.stack([even, odd], axis=1), (s.steps * 2, *shape_of(even)[1:]))


def _every(b: Builder, s: _Layer, x: Expr, *, odd: bool) -> Expr:
    """The even places of [2 · steps, …], or the odd ones."""
    pairs = in_shape(b, x, (s.steps, const(2), *shape_of(x)[1:]))
    return b.squeeze(b.strided_slice(pairs, begin=(int(odd),), end=(int(odd) + 1,), axes=(1,)), axis=(1,))
