"""Recurrences: a step, described by stages, that is repeated with what the step before left.

    h, = … scan(steps, [h0], [x, w], step)      where step(t, h) = (states after, what is kept of every step)

A scan is a loop program (`Loops`) whose structure is known: the program here is the plainest one, in which every tensor
of a step is stored before the next is computed. `lower` has a rule that makes a faster one from the structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.arith.expr import Expr, ExprLike, Var, expr
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.te.lower import nest
from legato.te.order import in_order
from legato.te.tensor import Axis, Loops, Stage, Tensor, compute, placeholder
from legato.tir.stmt import For, Stmt, Store, block

__all__ = ["Emission", "Scan", "State", "inner_tensors", "scan"]


@dataclass(frozen=True, eq=False, slots=True)
class State:
    """A state: `before` stands for its value when a step begins, first `initial`; the step computes `after`."""

    before: Tensor
    initial: Tensor
    after: Tensor


@dataclass(frozen=True, eq=False, slots=True)
class Emission:
    """What is kept of every step: result[index] = value[axes], where `index` uses the step and the `axes`.

    Over all steps every element of the result is stored once.
    """

    value: Tensor
    shape: tuple[Expr, ...]
    axes: tuple[Axis, ...]
    index: tuple[Expr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Scan(Loops):
    """`outputs` are the emissions' results, the final states, and then the temporaries of the plain program."""

    step: Var
    steps: Expr
    states: tuple[State, ...]
    emissions: tuple[Emission, ...]

    @property
    def results(self) -> tuple[Tensor, ...]:
        """The emissions' results and the final states."""
        return self.outputs[: len(self.emissions) + len(self.states)]


Kept = tuple[Tensor, Sequence[ExprLike], Callable[..., Sequence[ExprLike]]]
Step = Callable[..., tuple[Sequence[Tensor], Sequence[Kept]]]


def scan(
    steps: ExprLike, initial: Sequence[Tensor], inputs: Sequence[Tensor], f: Step, name: str = "scan"
) -> tuple[Tensor, ...]:
    """What a recurrence keeps of its steps, then its states after the last step.

    `f(step, *states)` describes a step by stages that read `inputs` and the states before. It returns the states after,
    of the shapes and dtypes of `initial`, and for everything that is kept a tensor, the shape of the result, and a
    function from the tensor's subscripts to those of the result. No steps leave the states as they are.
    """
    step = Var("t", dt.index, 0)
    before = [placeholder(f"{name}_state{n}", t.shape, t.dtype) for n, t in enumerate(initial)]
    boundary = {*inputs, *before}

    def staged(t: Tensor) -> Tensor:
        """`t`, or a copy of what a step does not compute."""
        return compute(t.shape, lambda *i: t[i], t.name) if t in boundary else t

    after, kept = f(step, *before)
    after = [staged(a) for a in after]
    states = tuple(State(b, i, a) for b, i, a in zip(before, initial, after, strict=True))
    for s in states:
        if s.after.rank != s.before.rank or s.after.dtype != s.before.dtype:
            raise InternalError(f"a state of a scan is {s.before}, after a step it is {s.after}")
    emissions = tuple(_emission(staged(value), shape, index) for value, shape, index in kept)
    finals = [Tensor(f"{name}_last{n}", t.shape, t.dtype) for n, t in enumerate(initial)]
    results = [Tensor(f"{name}{n}", e.shape, e.value.dtype) for n, e in enumerate(emissions)]
    inner = inner_tensors((*after, *(e.value for e in emissions)), (*inputs, *before))
    outputs = (*results, *finals, *(t for t in before), *inner)
    body = block(
        *(_copy(s.before, s.initial) for s in states),
        For(step, expr(steps), block(*map(nest, inner), *map(_keep, emissions, results), *map(_advance, states))),
        *(_copy(f, s.before) for f, s in zip(finals, states, strict=True)),
    )
    stage = Scan(body, (*inputs, *initial), outputs, step, expr(steps), states, emissions)
    for t in (*results, *finals):
        t.stage = stage
    return (*results, *finals)


def inner_tensors(roots: Sequence[Tensor], boundary: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that `roots` are computed from, producers first, themselves included, without those of `boundary`."""
    order = in_order(roots, boundary)
    for t in order:
        if not isinstance(t.stage, Stage):
            raise InternalError(f"{t.name}, which a scan reads, is neither an input of it nor a stage")
    return order


def _emission(value: Tensor, shape: Sequence[ExprLike], index: Callable[..., Sequence[ExprLike]]) -> Emission:
    axes = tuple(Axis(Var(f"i{n}", dt.index, 0), d) for n, d in enumerate(value.shape))
    place = tuple(expr(i) for i in index(*(a.var for a in axes)))
    return Emission(value, tuple(expr(d) for d in shape), axes, place)


def _keep(emission: Emission, result: Tensor) -> Stmt:
    body: Stmt = Store(result, emission.index, emission.value[tuple(a.var for a in emission.axes)])
    for axis in reversed(emission.axes):
        body = For(axis.var, axis.extent, body)
    return body


def _advance(state: State) -> Stmt:
    return _copy(state.before, state.after)


def _copy(target: Tensor, source: Tensor) -> Stmt:
    index = tuple(Var(f"i{n}", dt.index, 0) for n in range(target.rank))
    body: Stmt = Store(target, index, source[index])
    for var, extent in zip(reversed(index), reversed(target.shape), strict=True):
        body = For(var, extent, body)
    return body
