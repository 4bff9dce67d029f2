"""Recurrent layers over time: lstm_scan, gru_scan and rnn_scan.

They take what the inputs contribute to the gates at every step (one product for all steps, made before) and run the
steps: gates are those contributions plus a product of the state before with the recurrent weight. Time comes first, the
gates lie one behind the other: input, output, forget, cell of an LSTM; update, reset, hidden of a GRU (as in ONNX).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, Var, const, max_, min_
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._activations import ACTIVATIONS, clipped
from legato.ops._backward import gru_gradient, lstm_gradient, rnn_gradient
from legato.ops._families import Array, quiet
from legato.ops._rules import FLOAT, INT, require_dtype, require_rank, same_dtype, same_shape, tensor
from legato.ops._tensors import accumulator, product, require_choice, tensor_bytes, wide
from legato.te.scan import Kept, scan
from legato.te.tensor import Tensor, compute, reduce

__all__ = ["GruAttrs", "LstmAttrs", "RnnAttrs", "gru_scan", "lstm_scan", "rnn_scan"]


@dataclass(frozen=True, slots=True)
class RnnAttrs(Attrs):
    """What the cells have in common.

    reverse: steps run from the last to the first; the result of a step stands where its input does.
    lengths: the last argument has the number of steps of each sequence: behind them, outputs are 0 and states stay.
    activations, alphas, betas: functions of `_activations` and their parameters.
    clip: the limit of what goes into the gates, but not of an LSTM's cell on its way out; 0: none.
    """

    reverse: bool = False
    lengths: bool = False
    activations: tuple[str, ...] = ("tanh",)
    alphas: tuple[float, ...] = (0.0,)
    betas: tuple[float, ...] = (0.0,)
    clip: float = 0.0


@dataclass(frozen=True, slots=True)
class LstmAttrs(RnnAttrs):
    """`activations`: of the gates, the cell input and the cell. input_forget: the forget gate is 1 - the input gate.

    peepholes: the argument behind the cell has what the cell adds to the input, output and forget gates, per unit.
    cells: the cell states of every step are a fourth result.
    """

    activations: tuple[str, ...] = ("sigmoid", "tanh", "tanh")
    alphas: tuple[float, ...] = (0.0, 0.0, 0.0)
    betas: tuple[float, ...] = (0.0, 0.0, 0.0)
    peepholes: bool = False
    input_forget: bool = False
    cells: bool = False


@dataclass(frozen=True, slots=True)
class GruAttrs(RnnAttrs):
    """`activations`: of the gates and of the hidden state.

    reset_after: the reset gate scales the product of the state with the weight, not the state; the argument behind the
    state is then a bias of that product, per unit.
    """

    activations: tuple[str, ...] = ("sigmoid", "tanh")
    alphas: tuple[float, ...] = (0.0, 0.0)
    betas: tuple[float, ...] = (0.0, 0.0)
    reset_after: bool = False


# ------------------------------------------------------------------------------- types


def _relation(gates: int, states: int, extra: Callable[[Any], tuple[int, ...]]) -> Callable[..., Type]:
    """The relation of a cell: `extra` says which vectors of so many units stand behind the states."""

    def relation(rel: Relation, x: Type, weight: Type, *rest: Any) -> Type:
        *initial, more, a = rest
        data, recurrent = tensor(rel, x, "gates"), tensor(rel, weight, "recurrent weight")
        require_rank(rel, data, 3, what="gates")
        require_dtype(rel, data, FLOAT, "gates")
        first = tensor(rel, initial[0], "state")
        require_rank(rel, first, 2, what="state")
        steps, batch, wide_units = data.shape
        units = first.shape[1]
        rel.same(wide_units, units * gates, f"{gates} gates of the state's units")
        wanted = [(recurrent, (wide_units, units), "recurrent weight")]
        wanted += [(tensor(rel, s, "state"), (batch, units), "state") for s in initial]
        wanted += _more(rel, more, [n * units for n in extra(a)], batch, a)
        for ty, shape, what in wanted:
            same_shape(rel, ty.shape, shape, what)
        same_dtype(rel, data, *(ty for ty, _, what in wanted if what != "lengths"))
        _check_activations(rel, a)
        state, kept = TensorType((batch, units), data.dtype), TensorType((steps, batch, units), data.dtype)
        return TupleType((kept, *(state for _ in range(states)), *(kept for _ in range(_also_kept(a)))))

    return relation


def _also_kept(a: RnnAttrs) -> int:
    """How many states are kept of every step, beside the hidden one."""
    return int(isinstance(a, LstmAttrs) and a.cells)


def _more(rel: Relation, more: Type, vectors: Sequence[Expr], batch: Expr, a: RnnAttrs) -> list[Any]:
    """The optional arguments with the shapes that they must have."""
    fields = more.fields if isinstance(more, TupleType) else ()
    if len(fields) != len(vectors) + a.lengths:
        raise rel.fail(
            f"got {len(fields)} arguments behind the states, wanted {len(vectors) + a.lengths}",
            hint="the attributes say which there are",
        )
    found = [(tensor(rel, f, "vector"), (n,), "vector") for f, n in zip(fields, vectors, strict=False)]
    if a.lengths:
        lengths = tensor(rel, fields[-1], "lengths")
        require_dtype(rel, lengths, INT, "lengths")
        found.append((lengths, (batch,), "lengths"))
    return found


def _check_activations(rel: Relation, a: RnnAttrs) -> None:
    wanted = len(type(a)().activations)
    for name, values in (("activations", a.activations), ("alphas", a.alphas), ("betas", a.betas)):
        if len(values) != wanted:
            raise rel.fail(f"got {len(values)} {name}, wanted {wanted}")
    for name in a.activations:
        require_choice(rel, "activation", name, ACTIVATIONS)


# ------------------------------------------------------------------------------- references


def _run(
    x: Array, states: Sequence[Array], more: Sequence[Array], a: RnnAttrs, cell: Callable[..., Sequence[Array]]
) -> tuple[Array, ...]:
    """Every step in NumPy: `cell(x of the step, *states)` gives the states after it, in the accumulation dtype."""
    steps, batch = x.shape[:2]
    states = [s.copy() for s in states]
    lengths = np.clip(more[-1], 0, steps) if a.lengths else np.full(batch, steps)
    outs = [np.zeros((steps, batch, s.shape[1]), x.dtype) for s in states[: 1 + _also_kept(a)]]
    rows = np.arange(batch)
    for t in range(steps):
        runs = t < lengths
        at = np.where(runs, lengths - 1 - t, t) if a.reverse else np.full(batch, t)
        after = cell(wide(x[at, rows]), *map(wide, states))
        states = [np.where(runs[:, None], n.astype(x.dtype), s) for n, s in zip(after, states, strict=True)]
        for out, s in zip(outs, states, strict=False):
            out[at[runs], rows[runs]] = s[runs]
    return (outs[0], *states, *outs[1:])


def _apply(a: RnnAttrs, n: int, x: Array, *, clip: bool = True) -> Array:
    if a.clip and clip:
        x = np.clip(x, -a.clip, a.clip)
    return ACTIVATIONS[a.activations[n]].array(x, a.alphas[n], a.betas[n])


def _lstm_reference(
    x: Array, weight: Array, hidden: Array, cell: Array, more: tuple[Array, ...], a: LstmAttrs
) -> tuple[Array, ...]:
    r = wide(weight)
    units = hidden.shape[1]
    peep = wide(more[0]).reshape(3, units) if a.peepholes else np.zeros((3, units), r.dtype)

    def step(gates: Array, h: Array, c: Array) -> tuple[Array, Array]:
        i, o, f, g = np.split(gates + h @ r.T, 4, axis=1)
        i = _apply(a, 0, i + peep[0] * c)
        f = 1 - i if a.input_forget else _apply(a, 0, f + peep[2] * c)
        c = (f * c + i * _apply(a, 1, g)).astype(x.dtype).astype(r.dtype)
        return _apply(a, 0, o + peep[1] * c) * _apply(a, 2, c, clip=False), c

    return _run(x, (hidden, cell), more, a, step)


def _gru_reference(x: Array, weight: Array, hidden: Array, more: tuple[Array, ...], a: GruAttrs) -> tuple[Array, ...]:
    r = wide(weight)
    units = hidden.shape[1]
    gates_weight, hidden_weight = r[: 2 * units], r[2 * units :]

    def step(gates: Array, h: Array) -> tuple[Array]:
        z, reset = np.split(_apply(a, 0, gates[:, : 2 * units] + h @ gates_weight.T), 2, axis=1)
        if a.reset_after:
            inner = reset * (h @ hidden_weight.T + wide(more[0]))
        else:
            inner = (reset * h).astype(x.dtype).astype(r.dtype) @ hidden_weight.T
        return ((1 - z) * _apply(a, 1, gates[:, 2 * units :] + inner) + z * h,)

    return _run(x, (hidden,), more, a, step)


def _rnn_reference(x: Array, weight: Array, hidden: Array, more: tuple[Array, ...], a: RnnAttrs) -> tuple[Array, ...]:
    r = wide(weight)
    return _run(x, (hidden,), more, a, lambda gates, h: (_apply(a, 0, gates + h @ r.T),))


# ------------------------------------------------------------------------------- computes


class _Steps:
    """What the steps of all cells share: the inputs' part of the gates, products with the state, and what is kept."""

    def __init__(self, x: Tensor, weight: Tensor, more: tuple[Tensor, ...], a: RnnAttrs) -> None:
        self.x, self.weight, self.a = x, weight, a
        self.total = accumulator(x.dtype)
        self.lengths = more[-1] if a.lengths else None
        self.steps, self.batch, _ = x.shape
        self.units = weight.shape[1]

    @property
    def shape(self) -> tuple[Expr, Expr]:
        """Of a state."""
        return self.batch, self.units

    def wide(self, e: Expr) -> Expr:
        """`e` in the dtype in which a step computes."""
        return te.cast(e, self.total)

    def stored(self, f: Callable[[Expr, Expr], Expr], name: str) -> Tensor:
        """A tensor of a step, of the dtype of the data."""
        return compute(self.shape, lambda b, u: te.cast(f(b, u), self.x.dtype), name)

    def products(self, state: Tensor, first: int, count: int) -> Tensor:
        """state · weightᵀ for `count` gates from gate `first`."""

        def term(b: Expr, n: Expr, k: Expr) -> Expr:
            return self.wide(state[b, k]) * self.wide(self.weight[n + first * self.units, k])

        return reduce("sum", (self.batch, self.units * count), (self.units,), term, "products")

    def length(self, b: Expr) -> Expr:
        """Steps of sequence `b`."""
        if self.lengths is None:
            return self.steps
        return max_(const(0), min_(self.steps, te.cast(self.lengths[b], dt.index)))

    def place(self, t: Var, b: Expr) -> Expr:
        """Where step `t` of sequence `b` stands in time."""
        if not self.a.reverse:
            return t
        n = self.length(b)
        return n - 1 - t if self.lengths is None else te.select(te.lt(t, n), n - 1 - t, t)

    def gate(self, t: Var, b: Expr, u: Expr, n: int) -> Expr:
        """What the input contributes to gate `n` of unit `u`."""
        return self.wide(self.x[self.place(t, b), b, u + n * self.units])

    def apply(self, n: int, x: Expr, *, clip: bool = True) -> Expr:
        """Activation `n` of x."""
        function = ACTIVATIONS[self.a.activations[n]]
        return function.scalar(clipped(x, self.a.clip) if clip else x, self.a.alphas[n], self.a.betas[n])

    def kept(
        self, t: Var, after: Sequence[Tensor], before: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], Sequence[Kept]]:
        """The states after a step and what is kept of it, for sequences that may have ended."""

        def place(b: Expr, u: Expr) -> tuple[Expr, ...]:
            return self.place(t, b), b, u

        values = list(after[: 1 + _also_kept(self.a)])
        if self.lengths is not None:
            zero = const(0, values[0].dtype)

            def held(new: Tensor, old: Tensor) -> Tensor:
                return compute(
                    self.shape, lambda b, u: te.select(te.lt(t, self.length(b)), new[b, u], old[b, u]), "held"
                )

            def until_end(new: Tensor) -> Tensor:
                return compute(self.shape, lambda b, u: te.select(te.lt(t, self.length(b)), new[b, u], zero), "kept")

            values = list(map(until_end, values))
            after = [held(n, o) for n, o in zip(after, before, strict=True)]
        return after, [(value, (self.steps, *self.shape), place) for value in values]

    def run(self, states: Sequence[Tensor], inputs: Sequence[Tensor], cell: Callable[..., Any]) -> tuple[Tensor, ...]:
        """The scan; `cell(t, *states)` gives the states after a step."""

        def step(t: Var, *before: Tensor) -> tuple[Sequence[Tensor], Sequence[Kept]]:
            return self.kept(t, cell(t, *before), before)

        outputs, *rest = scan(self.steps, states, (self.x, self.weight, *inputs), step)
        more = _also_kept(self.a)
        return (outputs, *rest[more:], *rest[:more])


def _lstm_compute(
    x: Tensor, weight: Tensor, hidden: Tensor, cell: Tensor, more: tuple[Tensor, ...], a: LstmAttrs, out: TupleType
) -> tuple[Tensor, ...]:
    s = _Steps(x, weight, more, a)

    def step(t: Var, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        products = s.products(h, 0, 4)

        def gate(n: int, b: Expr, u: Expr, state: Expr | None = None) -> Expr:
            value = s.gate(t, b, u, n) + products[b, u + n * s.units]
            if a.peepholes and state is not None:
                value = value + s.wide(more[0][u + n * s.units]) * state
            return value

        def new_cell(b: Expr, u: Expr) -> Expr:
            old = s.wide(c[b, u])
            i = s.apply(0, gate(0, b, u, old))
            f = te.literal(1, i) - i if a.input_forget else s.apply(0, gate(2, b, u, old))
            return f * old + i * s.apply(1, gate(3, b, u))

        after = s.stored(new_cell, "cell")

        def new_hidden(b: Expr, u: Expr) -> Expr:
            new = s.wide(after[b, u])
            return s.apply(0, gate(1, b, u, new)) * s.apply(2, new, clip=False)

        return s.stored(new_hidden, "hidden"), after

    return s.run((hidden, cell), more, step)


def _gru_compute(
    x: Tensor, weight: Tensor, hidden: Tensor, more: tuple[Tensor, ...], a: GruAttrs, out: TupleType
) -> tuple[Tensor, ...]:
    s = _Steps(x, weight, more, a)

    def step(t: Var, h: Tensor) -> tuple[Tensor]:
        products = s.products(h, 0, 3 if a.reset_after else 2)

        def gate(n: int, b: Expr, u: Expr) -> Expr:
            return s.apply(0, s.gate(t, b, u, n) + products[b, u + n * s.units])

        if a.reset_after:

            def inner(b: Expr, u: Expr) -> Expr:
                return gate(1, b, u) * (products[b, u + 2 * s.units] + s.wide(more[0][u]))
        else:
            scaled = s.stored(lambda b, u: gate(1, b, u) * s.wide(h[b, u]), "reset")
            hidden_products = s.products(scaled, 2, 1)

            def inner(b: Expr, u: Expr) -> Expr:
                return hidden_products[b, u]

        def new(b: Expr, u: Expr) -> Expr:
            z = gate(0, b, u)
            candidate = s.apply(1, s.gate(t, b, u, 2) + inner(b, u))
            return (te.literal(1, z) - z) * candidate + z * s.wide(h[b, u])

        return (s.stored(new, "hidden"),)

    return s.run((hidden,), more, step)


def _rnn_compute(
    x: Tensor, weight: Tensor, hidden: Tensor, more: tuple[Tensor, ...], a: RnnAttrs, out: TupleType
) -> tuple[Tensor, ...]:
    s = _Steps(x, weight, more, a)

    def step(t: Var, h: Tensor) -> tuple[Tensor]:
        products = s.products(h, 0, 1)
        return (s.stored(lambda b, u: s.apply(0, s.gate(t, b, u, 0) + products[b, u]), "hidden"),)

    return s.run((hidden,), more, step)


# ------------------------------------------------------------------------------- records


def _cost(arg_types: Sequence[Type], out_type: Type, attrs: RnnAttrs) -> Cost:
    """Multiply-adds of the products with the state; all arguments and results moved once."""
    x, weight = arg_types[0], arg_types[1]
    assert isinstance(x, TensorType)
    assert isinstance(weight, TensorType)
    macs = product(x.shape) * weight.shape[1]
    moved = [t for ty in (*arg_types, out_type) for t in (ty.fields if isinstance(ty, TupleType) else (ty,))]
    return Cost(macs * 2, tensor_bytes(moved))


def _sample(gates: int, sizes: tuple[int, int, int], states: int, *more: Any, dtype: str = "float32",
            rtol: float = 1e-5, **attrs: Any) -> Sample:  # fmt: skip
    steps, batch, units = sizes
    state = ((batch, units), dtype)
    shapes = (((steps, batch, gates * units), dtype), ((gates * units, units), dtype), *(state for _ in range(states)))
    return Sample((*shapes, *more), attrs, rtol=rtol)


_SHORT = np.array([3, 0, 9], np.int32)  # one of the usual, one that is empty, one that is too long
_OTHER: dict[str, Any] = {
    "activations": ("hard_sigmoid", "softsign", "relu"),
    "alphas": (0.3, 0.0, 0.0),
    "betas": (0.4, 0.0, 0.0),
}

lstm_scan = Op(
    name="nn.lstm_scan",
    args=("gates", "recurrent", "hidden", "cell", "*more"),
    attrs=LstmAttrs,
    type_rel=_relation(4, 2, lambda a: (3,) if a.peepholes else ()),
    reference=quiet(_lstm_reference),
    compute=_lstm_compute,
    grad=lstm_gradient,
    fusion=Fusion.OPAQUE,
    cost=_cost,
    samples=(
        _sample(4, (5, 1, 32), 2),
        _sample(4, (3, 4, 17), 2, reverse=True),
        _sample(4, (4, 3, 5), 2, ((15,), "float32"), _SHORT, peepholes=True, lengths=True, reverse=True),
        _sample(4, (2, 2, 6), 2, clip=0.5, input_forget=True, **_OTHER),
        _sample(4, (3, 2, 5), 2, _SHORT[:2], lengths=True, cells=True),
        _sample(4, (0, 2, 3), 2),
        _sample(4, (2, 0, 3), 2),
        _sample(4, (3, 2, 8), 2, dtype="float16", rtol=4e-3),
        _sample(4, (3, 2, 40), 2, dtype="float64", rtol=1e-12),
    ),
    doc="""An LSTM over time (Hochreiter and Schmidhuber 1997), its gates' inputs computed before.

gates [steps, batch, 4 · units] in the order input, output, forget, cell; recurrent [4 · units, units]; hidden and cell
[batch, units]; then peepholes [3 · units] (input, output, forget) and lengths [batch], where the attributes say so.
Gives the hidden state of every step [steps, batch, units], and the last hidden and cell states.""",
)

gru_scan = Op(
    name="nn.gru_scan",
    args=("gates", "recurrent", "hidden", "*more"),
    attrs=GruAttrs,
    type_rel=_relation(3, 1, lambda a: (1,) if a.reset_after else ()),
    reference=quiet(_gru_reference),
    compute=_gru_compute,
    grad=gru_gradient,
    fusion=Fusion.OPAQUE,
    cost=_cost,
    samples=(
        _sample(3, (5, 1, 32), 1),
        _sample(3, (3, 4, 17), 1, ((17,), "float32"), reset_after=True, reverse=True),
        _sample(3, (4, 3, 5), 1, _SHORT, lengths=True),
        _sample(3, (2, 3, 0), 1),
        _sample(3, (2, 2, 6), 1, ((6,), "float32"), np.array([2, 1]), reset_after=True, lengths=True, reverse=True),
        _sample(3, (3, 2, 8), 1, dtype="float16", rtol=4e-3),
    ),
    doc="""A GRU over time (Cho et al. 2014), its gates' inputs computed before.

gates [steps, batch, 3 · units] in the order update, reset, hidden; recurrent [3 · units, units]; hidden [batch, units];
then the bias [units] of `reset_after` and lengths [batch], where the attributes say so. Gives the state of every step
[steps, batch, units], and the last one.""",
)

rnn_scan = Op(
    name="nn.rnn_scan",
    args=("gates", "recurrent", "hidden", "*more"),
    attrs=RnnAttrs,
    type_rel=_relation(1, 1, lambda a: ()),
    reference=quiet(_rnn_reference),
    compute=_rnn_compute,
    grad=rnn_gradient,
    fusion=Fusion.OPAQUE,
    cost=_cost,
    samples=(
        _sample(1, (5, 1, 32), 1, rtol=2e-5),  # five sums of 32, each of the one before, without FMA
        _sample(1, (3, 4, 17), 1, reverse=True),
        _sample(1, (4, 3, 5), 1, _SHORT, lengths=True, reverse=True),
        _sample(1, (2, 0, 3), 1),
        *(
            _sample(1, (3, 2, 6), 1, activations=(name,), alphas=(0.5,), betas=(0.25,), rtol=2e-5)
            for name in ACTIVATIONS
        ),
    ),
    doc="""A plain recurrent layer over time, h = f(x + h · recurrentᵀ), its inputs computed before.

gates [steps, batch, units]; recurrent [units, units]; hidden [batch, units]; then lengths [batch], where the attributes
say so. Gives the state of every step [steps, batch, units], and the last one.""",
)
