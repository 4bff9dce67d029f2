"""LSTM, GRU and RNN: one product of the inputs of all steps with the weight, then a scan over the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

# Legato's name of an activation, and the defaults of alpha and beta. None: it has no such parameter.
_FUNCTIONS: Mapping[str, tuple[str, float | None, float | None]] = MappingProxyType(
    {
        "sigmoid": ("sigmoid", None, None),
        "tanh": ("tanh", None, None),
        "relu": ("relu", None, None),
        "affine": ("affine", 1.0, 0.0),
        "leakyrelu": ("leaky_relu", 0.01, None),
        "thresholdedrelu": ("thresholded_relu", 1.0, None),
        "scaledtanh": ("scaled_tanh", 1.0, 1.0),
        "hardsigmoid": ("hard_sigmoid", 0.2, 0.5),
        "elu": ("elu", 1.0, None),
        "softsign": ("softsign", None, None),
        "softplus": ("softplus", None, None),
    }
)
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def lstm(
    b: Emitter,
    x: Expr,
    w: Expr,
    r: Expr,
    bias: Expr | None = None,
    sequence_lens: Expr | None = None,
    initial_h: Expr | None = None,
    initial_c: Expr | None = None,
    peepholes: Expr | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] = (),
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: bool = False,
    layout: bool = False,
    output_sequence: bool = False,
) -> tuple[Expr, ...]:
    layer = _layer(b, x, r, 4, direction, layout, sequence_lens, hidden_size)
    functions = _functions(activations, activation_alpha, activation_beta, ("sigmoid", "tanh", "tanh"), layer.count)
    results: list[Expr] = []
    for d, reverse in enumerate(layer.reverse):
        extra = [] if peepholes is None else [_part(b, peepholes, d)]
        results.append(
            b.call(
                "nn.lstm_scan",
                layer.gates(b, w, bias, d),
                _part(b, r, d),
                layer.state(b, initial_h, d),
                layer.state(b, initial_c, d),
                *extra,
                *layer.lengths,
                reverse=reverse,
                lengths=bool(layer.lengths),
                peepholes=peepholes is not None,
                input_forget=input_forget,
                clip=clip,
                **functions[d],
            )
        )
    return layer.joined(b, results, 3)


def gru(
    b: Emitter,
    x: Expr,
    w: Expr,
    r: Expr,
    bias: Expr | None = None,
    sequence_lens: Expr | None = None,
    initial_h: Expr | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] = (),
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: bool = False,
    linear_before_reset: bool = False,
    output_sequence: bool = False,
) -> tuple[Expr, ...]:
    layer = _layer(b, x, r, 3, direction, layout, sequence_lens, hidden_size)
    functions = _functions(activations, activation_alpha, activation_beta, ("sigmoid", "tanh"), layer.count)
    results: list[Expr] = []
    for d, reverse in enumerate(layer.reverse):
        inner = [layer.inner_bias(b, bias, d)] if linear_before_reset else []
        results.append(
            b.call(
                "nn.gru_scan",
                layer.gates(b, w, bias, d, own=2 if linear_before_reset else 3),
                _part(b, r, d),
                layer.state(b, initial_h, d),
                *inner,
                *layer.lengths,
                reverse=reverse,
                lengths=bool(layer.lengths),
                reset_after=linear_before_reset,
                clip=clip,
                **functions[d],
            )
        )
    return layer.joined(b, results, 2)


def rnn(
    b: Emitter,
    x: Expr,
    w: Expr,
    r: Expr,
    bias: Expr | None = None,
    sequence_lens: Expr | None = None,
    initial_h: Expr | None = None,
    *,
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    activations: tuple[str, ...] = (),
    clip: float = 0.0,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: bool = False,
    output_sequence: bool = False,
) -> tuple[Expr, ...]:
    layer = _layer(b, x, r, 1, direction, layout, sequence_lens, hidden_size)
    functions = _functions(activations, activation_alpha, activation_beta, ("tanh",), layer.count)
    results: list[Expr] = []
    for d, reverse in enumerate(layer.reverse):
        results.append(
            b.call(
                "nn.rnn_scan",
                layer.gates(b, w, bias, d),
                _part(b, r, d),
                layer.state(b, initial_h, d),
                *layer.lengths,
                reverse=reverse,
                lengths=bool(layer.lengths),
                clip=clip,
                **functions[d],
            )
        )
    return layer.joined(b, results, 2)


@dataclass(frozen=True, slots=True)
class _Layer:
    """What the three operators have in common: the input, time first, and how their parts are numbered."""

    x: Expr
    units: int
    gate_count: int
    reverse: tuple[bool, ...]
    batch_first: bool
    lengths: tuple[Expr, ...]

    @property
    def count(self) -> int:
        """Directions."""
        return len(self.reverse)

    def gates(self, b: Emitter, w: Expr, bias: Expr | None, d: int, own: int | None = None) -> Expr:
        """What the inputs contribute to the gates of direction `d`; the first `own` gates with both their biases.

        One product for the rows of all steps, which may be few in each.
        """
        steps, batch, inputs = b.dims_of(self.x)
        wide = self.units * self.gate_count
        flat = not b.is_one(batch)
        rows = b.reshape(self.x, newshape=(steps * batch, inputs), allowzero=True) if flat else self.x
        y = b.nn.dense(rows, _part(b, w, d))
        if bias is not None:
            both = _part(b, bias, d)
            whole, recurrent = b.columns(both, 0, wide), b.columns(both, wide, 2 * wide)
            if own is not None and own < self.gate_count:
                none = b.constant(np.zeros(self.units * (self.gate_count - own)), b.dtype(bias))
                recurrent = b.concatenate(b.columns(recurrent, 0, self.units * own), none, axis=0)
            y = b.add(y, b.add(whole, recurrent))
        return b.reshape(y, newshape=(steps, batch, wide), allowzero=True) if flat else y

    def inner_bias(self, b: Emitter, bias: Expr | None, d: int) -> Expr:
        """The bias of the product of the state with the last gate's weight."""
        if bias is None:
            return b.constant(np.zeros(self.units), b.dtype(self.x))
        both = _part(b, bias, d)
        end = 2 * self.units * self.gate_count
        return b.columns(both, end - self.units, end)

    def state(self, b: Emitter, initial: Expr | None, d: int) -> Expr:
        """The initial state of direction `d`: zeros where there is none."""
        if initial is None:
            return b.zeros(shape=(b.dims_of(self.x)[1], self.units), dtype=b.dtype(self.x))
        return _part(b, initial, d, axis=1 if self.batch_first else 0)

    def joined(self, b: Emitter, results: Sequence[Expr], count: int) -> tuple[Expr, ...]:
        """The outputs: those of every direction beside each other."""
        sequences = [b.get(r, 0) for r in results]
        if self.batch_first:
            sequences = [b.transpose(s, axes=(1, 0, 2)) for s in sequences]
        found = [_beside(b, sequences, 2 if self.batch_first else 1)]
        for n in range(1, count):
            found.append(_beside(b, [b.get(r, n) for r in results], 1 if self.batch_first else 0))
        return tuple(found)


def _layer(
    b: Emitter, x: Expr, r: Expr, gates: int, direction: str, layout: bool, lengths: Expr | None, hidden: int | None
) -> _Layer:
    if direction not in _DIRECTIONS:
        raise ImportModelError(f"direction is {direction!r}, wanted forward, reverse or bidirectional")
    if b.rank(x) != 3 or b.rank(r) != 3:
        raise ImportModelError(f"the input has rank {b.rank(x)} and the weight rank {b.rank(r)}, wanted 3 and 3")
    reverse = _DIRECTIONS[direction]
    if hidden is not None:
        r = b.agreed(r, (len(reverse), gates * hidden, hidden), "the recurrent weight")
    directions, _, units = b.sizes(r, "the recurrent weight")
    if directions != len(reverse):
        raise ImportModelError(f"the weight has {directions} directions, but direction is {direction!r}")
    if hidden is not None and hidden != units:
        raise ImportModelError(f"hidden_size is {hidden}, but the recurrent weight has {units} columns")
    if layout:
        x = b.transpose(x, axes=(1, 0, 2))
    given = () if lengths is None or _is_full(b, lengths, x) else (lengths,)
    return _Layer(x, units, gates, reverse, layout, given)


def _is_full(b: Emitter, lengths: Expr, x: Expr) -> bool:
    """True if every sequence is known to be as long as the input."""
    steps, known = b.dims_of(x)[0], b.array(lengths)
    return known is not None and isinstance(steps, Const) and bool(np.all(known == int(steps.value)))


def _part(b: Emitter, x: Expr, d: int, axis: int = 0) -> Expr:
    """What belongs to direction `d`."""
    one = b.is_one(b.dim_of(x, axis))
    return b.squeeze(x if one else b.strided_slice(x, begin=(d,), end=(d + 1,), axes=(axis,)), axis=(axis,))


def _beside(b: Emitter, parts: Sequence[Expr], axis: int) -> Expr:
    """`parts` along a new dimension."""
    return b.expand_dims(parts[0], axis=axis, num_newaxis=1) if len(parts) == 1 else b.stack(*parts, axis=axis)


def _functions(
    names: Sequence[str], alphas: Sequence[float], betas: Sequence[float], defaults: Sequence[str], directions: int
) -> list[dict[str, Any]]:
    """The attributes of each direction's scan that say which activations it has.

    `alphas` and `betas` are for those activations that have such a parameter, in order; it has its default behind them.
    """
    names = names or tuple(defaults) * directions
    if len(names) != len(defaults) * directions:
        raise ImportModelError(f"activations has {len(names)} entries, wanted {len(defaults) * directions}")
    left, found = (iter(alphas), iter(betas)), list[tuple[str, float, float]]()
    for name in names:
        if name.lower() not in _FUNCTIONS:
            raise UnsupportedError(f"attribute activations: {name}", hint=f"one of {', '.join(_FUNCTIONS)}")
        own, *parameters = _FUNCTIONS[name.lower()]
        alpha, beta = (0.0 if p is None else next(given, p) for given, p in zip(left, parameters, strict=True))
        found.append((own, alpha, beta))
    size = len(defaults)
    parts = [found[d * size : (d + 1) * size] for d in range(directions)]
    keys = ("activations", "alphas", "betas")
    return [dict(zip(keys, zip(*part, strict=True), strict=True)) for part in parts]
