"""Recurrent layers, one on another, in one direction or two, by Legato's scans over the steps."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.simplify import simplify
from legato.base.dataclass import dataclass
from legato.base.dtype import int64
from legato.frontend.torch.emitter import Emitter
from legato.ir.expr import Expr

__all__ = ["GRU", "LSTM", "RELU", "TANH", "Kind", "layers", "packed"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of layer: its operator, where each of Legato's gates is among PyTorch's, and its activations."""

    operator: str
    gates: tuple[int, ...]
    states: int
    activations: tuple[str, ...]

    def ordered(self, b: Emitter, x: Expr) -> Expr:
        """A weight or a bias with its gates, along its first dim, as Legato has them."""
        if len(self.gates) == 1:
            return x
        units = simplify(b.dim_of(x, 0) // len(self.gates))
        parts = [b.strided_slice(x, begin=(units * n,), end=(units * (n + 1),), axes=(0,)) for n in self.gates]
        return b.concatenate(*parts, axis=0)


LSTM = Kind("nn.lstm_scan", (0, 3, 1, 2), 2, ("sigmoid", "tanh", "tanh"))  # from input, forget, cell, output
GRU = Kind("nn.gru_scan", (1, 0, 2), 1, ("sigmoid", "tanh"))  # from reset, update, new
TANH = Kind("nn.rnn_scan", (0,), 1, ("tanh",))
RELU = Kind("nn.rnn_scan", (0,), 1, ("relu",))


@dataclass(frozen=True, slots=True)
class _Weights:
    """Those of one direction of a layer: of inputs, of states, their biases, and of what a state is projected by."""

    inputs: Expr
    states: Expr
    biases: tuple[Expr, Expr] | None
    projection: Expr | None


def layers(
    b: Emitter, kind: Kind, x: Expr, initial: Sequence[Expr], params: Sequence[Expr], has_biases: bool, count: int,
    bidirectional: bool, batch_first: bool, lengths: Expr | None = None, reverse: bool = False,
) -> tuple[Expr, ...]:  # fmt: skip
    """The outputs of the last layer, then the last states of each kind, those of layers and directions behind one
    another. `lengths`: how many steps each sequence has; `reverse`: the only direction is backwards."""
    directions = 2 if bidirectional else 1
    weights = _grouped(params, has_biases, count * directions)
    x = b.transpose(x, axes=(1, 0, 2)) if batch_first else x
    last: list[list[Expr]] = [[] for _ in range(kind.states)]
    for layer in range(count):
        outputs: list[Expr] = []
        for d in range(directions):
            n = layer * directions + d
            states = [b.take(s, b.constant(n, "int64"), axis=0) for s in initial]
            y, *ends = _direction(b, kind, x, weights[n], states, lengths, reverse=reverse or d == 1)
            outputs.append(y)
            for held, end in zip(last, ends, strict=True):
                held.append(end)
        x = outputs[0] if directions == 1 else b.concatenate(*outputs, axis=2)
    y = b.transpose(x, axes=(1, 0, 2)) if batch_first else x
    return y, *(_beside(b, held) for held in last)


def packed(
    b: Emitter, kind: Kind, data: Expr, batch_sizes: Expr, initial: Sequence[Expr], params: Sequence[Expr],
    has_biases: bool, count: int, bidirectional: bool,
) -> tuple[Expr, ...]:  # fmt: skip
    """As `layers`, of sequences that lie in one tensor step by step: step t has `batch_sizes[t]` of them, the first
    ones. They are scanned beside each other, as far as each goes."""
    sizes, batch = b.to(batch_sizes, int64), b.dim_of(initial[0], 1)
    ends = b.cumsum(sizes, axis=0)
    starts = b.expand_dims(b.subtract(ends, sizes), axis=1)
    rows = b.arange(start=b.size(0), stop=batch, step=1, dtype="int64")
    lengths = b.sum(b.to(b.less(rows, b.expand_dims(sizes, axis=1)), int64), axis=(0,))
    x = b.take(data, b.add(starts, rows), axis=0, mode="clip")
    y, *last = layers(b, kind, x, initial, params, has_biases, count, bidirectional, False, lengths)
    places = b.arange(start=b.size(0), stop=b.dim_of(data, 0), step=1, dtype="int64")
    step = b.to(b.searchsorted(ends, places, right=True), int64)
    row = b.subtract(places, b.take(b.squeeze(starts, axis=(1,)), step, axis=0))
    flat = b.reshape(y, newshape=(b.dim_of(y, 0) * batch, b.dim_of(y, 2)), allowzero=True)
    return b.take(flat, b.add(b.multiply(step, b.extent(batch, int64)), row), axis=0), *last


def _beside(b: Emitter, parts: Sequence[Expr]) -> Expr:
    return b.expand_dims(parts[0], axis=0) if len(parts) == 1 else b.stack(*parts, axis=0)


def _grouped(params: Sequence[Expr], has_biases: bool, count: int) -> list[_Weights]:
    """The weights of each direction of each layer, in PyTorch's order."""
    size = len(params) // count
    found = []
    for n in range(count):
        w_inputs, w_states, *rest = params[n * size : (n + 1) * size]
        biases = (rest[0], rest[1]) if has_biases else None
        found.append(_Weights(w_inputs, w_states, biases, rest[-1] if size in (3, 5) else None))
    return found


def _direction(
    b: Emitter, kind: Kind, x: Expr, w: _Weights, states: Sequence[Expr], lengths: Expr | None, *, reverse: bool
) -> list[Expr]:
    """The outputs of one direction of a layer, and its last states. A projection belongs to the weight of states: only
    the first step, whose state is given, has a product of its own."""
    recurrent = kind.ordered(b, w.states)
    gates, inner = _gates(b, kind, x, w)
    hidden, *cells = states
    if w.projection is not None:
        gates = _with_first(b, gates, b.nn.dense(hidden, recurrent), lengths, reverse=reverse)
        recurrent = b.matmul(recurrent, w.projection)
        hidden = b.zeros_of(b.dims_of(cells[0]), b.dtype(x))
    more = [lengths] if lengths is not None else []
    extra = {"reset_after": True} if kind is GRU else {}
    made = b.call(kind.operator, gates, recurrent, hidden, *cells, *inner, *more, reverse=reverse,
                  lengths=lengths is not None, activations=kind.activations, **_plain(kind), **extra)  # fmt: skip
    y, last, *rest = (b.get(made, n) for n in range(kind.states + 1))
    if w.projection is not None:
        y, last = (b.nn.dense(v, w.projection) for v in (y, last))
    return [y, last, *rest]


def _plain(kind: Kind) -> dict[str, tuple[float, ...]]:
    zeros = (0.0,) * len(kind.activations)
    return {"alphas": zeros, "betas": zeros}


def _gates(b: Emitter, kind: Kind, x: Expr, w: _Weights) -> tuple[Expr, list[Expr]]:
    """What the inputs of all steps contribute to the gates, and the bias that a GRU's reset gate scales."""
    y = b.nn.dense(x, kind.ordered(b, w.inputs))
    units = simplify(b.dim_of(w.inputs, 0) // len(kind.gates))
    if w.biases is None:
        return y, [b.zeros_of((units,), b.dtype(x))] if kind is GRU else []
    own, states = (kind.ordered(b, bias) for bias in w.biases)
    if kind is not GRU:
        return b.add(y, b.add(own, states)), []
    inner = b.strided_slice(states, begin=(units * 2,), end=(units * 3,), axes=(0,))
    outer = b.strided_slice(states, begin=(0,), end=(units * 2,), axes=(0,))
    whole = b.concatenate(outer, b.zeros_of((units,), b.dtype(own)), axis=0)
    return b.add(y, b.add(own, whole)), [inner]


def _with_first(b: Emitter, gates: Expr, more: Expr, lengths: Expr | None, *, reverse: bool) -> Expr:
    """`gates` [steps, batch, …] with `more` added to those of the step that comes first."""
    steps = b.arange(start=b.size(0), stop=b.dim_of(gates, 0), step=1, dtype="int64")
    steps = b.expand_dims(steps, axis=1, num_newaxis=2)
    if not reverse:
        first: Expr = b.constant(0, "int64")
    elif lengths is None:
        first = b.extent(b.dim_of(gates, 0) - 1, b.dtype(steps))
    else:
        first = b.subtract(b.expand_dims(b.to(lengths, b.dtype(steps)), axis=1), b.constant(1, "int64"))
    return b.where(b.equal(steps, first), b.add(gates, more), gates)
