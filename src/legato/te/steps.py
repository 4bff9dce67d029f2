"""A scan's step in phases: what must be complete before what is computed next.

All states and kept values of a step are functions over the same axes, of which the last one (the unit) is vectorised.
A value reads sums at a few elements that belong to its own (the gates of a unit): its slots. Where a sum reads what the
same step computes, that is held in memory, and a new phase begins:

    GRU, reset before:   phase 0:  held[b, u] = reset gate · state           slot: product of the reset gate
                         phase 1:  state'[b, u] = …                          slots: update gate, held · weight
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from legato.arith.expr import Expr, Var, const
from legato.arith.prove import prove_all_equal, prove_equal
from legato.arith.substitute import substitute
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.te.inline import inline, loads
from legato.te.scan import Scan, inner_tensors
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.expr import Load

__all__ = ["Phase", "Slot", "Steps", "Value", "steps_of"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A sum that a value reads by `load`: Σ body over the phase's `along`."""

    load: Load
    body: Expr


@dataclass(frozen=True, slots=True)
class Value:
    """`expr`, over the axes of the steps: state number `state` after the step, result number `result` at `index`, or
    the contents of `held`."""

    expr: Expr
    state: int | None = None
    result: int | None = None
    index: tuple[Expr, ...] = ()
    held: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """Values that are computed together, and the sums that they need; `along` is None where there are no sums."""

    values: tuple[Value, ...]
    slots: tuple[Slot, ...]
    along: Axis | None


@dataclass(frozen=True, slots=True)
class Steps:
    """The phases of a step over `axes`; `own`: of each state, whether elements are only read where they are written."""

    axes: tuple[Axis, ...]
    phases: tuple[Phase, ...]
    own: tuple[bool, ...]


def steps_of(scan: Scan, stored: Container[Tensor]) -> Steps | None:
    """The phases of `scan`, whose inputs are `stored`; None where its step is not of this form."""
    finals = [s.after for s in scan.states] + [e.value for e in scan.emissions]
    before = [s.before for s in scan.states]
    inner = inner_tensors(finals, (*scan.inputs, *before))
    sums = [t for t in inner if isinstance(t.stage, Stage) and t.stage.reduction is not None]
    if not finals or not finals[0].rank or not all(_is_plain_sum(t) for t in sums):
        return None
    held = _held(inner, sums)
    if not all(prove_all_equal(t.shape, finals[0].shape) for t in (*finals, *held)):
        return None
    axes = tuple(Axis(Var("u" if n == finals[0].rank - 1 else "b", dt.index, 0), d)
                 for n, d in enumerate(finals[0].shape))  # fmt: skip
    return _Plan(scan, axes, sums, held, stored).run()


def _is_plain_sum(t: Tensor) -> bool:
    stage = t.stage
    assert isinstance(stage, Stage)
    red = stage.reduction
    return red is not None and red.combiner == "sum" and red.init is None and len(red.axes) == 1


def _held(inner: Sequence[Tensor], sums: Sequence[Tensor]) -> list[Tensor]:
    """What sums read that is itself computed from sums, producers first."""
    depends: set[object] = set(sums)
    read: set[object] = set()
    for t in inner:
        assert isinstance(t.stage, Stage)
        operands = [x.buffer for x in loads(t.stage.body)]
        if any(b in depends for b in operands):
            depends.add(t)
        if t in sums:
            read.update(operands)
    return [t for t in inner if t in read and t in depends]


class _Plan:
    """Values and sums by level: that of a sum is above that of everything held that it reads."""

    def __init__(
        self,
        scan: Scan,
        axes: tuple[Axis, ...],
        sums: Sequence[Tensor],
        held: Sequence[Tensor],
        stored: Container[Tensor],
    ) -> None:
        self.scan, self.axes, self.sums, self.held = scan, axes, set(sums), set(held)
        self.keep = _Kept(self.held, stored)
        self.bodies: dict[Tensor, Expr] = {}
        self.level: dict[Tensor, int] = {}
        for t in inner_tensors([*sums, *held], (*scan.inputs, *(s.before for s in scan.states))):
            if t in self.sums:
                assert isinstance(t.stage, Stage)
                self.bodies[t] = inline(t.stage.body, self.keep)
                self.level[t] = max([self.level[h] + 1 for h in self._reads(self.bodies[t], self.held)], default=0)
            if t in self.held and t not in self.sums:
                self.level[t] = self._level_of(self._value(t))

    def run(self) -> Steps | None:
        by_level: dict[int, list[Value]] = {}
        for t in self.held:
            by_level.setdefault(self.level[t], []).append(Value(self._value(t), held=t))
        last = [Value(self._value(s.after), state=n) for n, s in enumerate(self.scan.states)]
        for n, e in enumerate(self.scan.emissions):
            mine: dict[Var, Expr] = {a.var: b.var for a, b in zip(e.axes, self.axes, strict=True)}
            last.append(Value(self._value(e.value), result=n, index=tuple(substitute(i, mine) for i in e.index)))
        top = max([*by_level, *(self._level_of(v.expr) - 1 for v in last)], default=-1) + 1
        phases = [self._phase(values) for _, values in sorted({**by_level, top: last}.items())]
        found = [p for p in phases if p is not None]
        return Steps(self.axes, tuple(found), self._own(found)) if len(found) == len(phases) else None

    def _value(self, t: Tensor) -> Expr:
        """The element of `t` at the steps' axes, in terms of sums, what is held, states before, and inputs."""
        at: dict[Var, Expr]
        if t in self.sums:
            return Load(t, tuple(a.var for a in self.axes))
        assert isinstance(t.stage, Stage)
        at = {a.var: b.var for a, b in zip(t.stage.axes, self.axes, strict=True)}
        return substitute(inline(t.stage.body, self.keep), at)

    def _reads(self, e: Expr, of: Container[Tensor]) -> list[Tensor]:
        return [x.buffer for x in loads(e) if isinstance(x.buffer, Tensor) and x.buffer in of]

    def _level_of(self, e: Expr) -> int:
        """The first phase in which `e` can be computed."""
        sums = [self.level[t] for t in self._reads(e, self.sums)]
        return max([*sums, *(self.level[t] + 1 for t in self._reads(e, self.held) if t not in self.sums)], default=0)

    def _phase(self, values: Sequence[Value]) -> Phase | None:
        """`values` with their slots; None where the sums do not run over the same extent."""
        wanted = dict.fromkeys(x for v in values for x in loads(v.expr) if x.buffer in self.sums)
        slots: list[Slot] = []
        along: Axis | None = None
        for x in wanted:
            t = x.buffer
            assert isinstance(t, Tensor)
            assert isinstance(t.stage, Stage)
            assert t.stage.reduction is not None
            (axis,) = t.stage.reduction.axes
            along = along or Axis(Var("k", dt.index, 0), axis.extent)
            if not prove_equal(along.extent, axis.extent) or any(loads(i) for i in x.indices):
                return None
            env: dict[Var, Expr] = {a.var: i for a, i in zip(t.stage.axes, x.indices, strict=True)}
            slots.append(Slot(x, substitute(self.bodies[t], {**env, axis.var: along.var})))
        return Phase(tuple(values), tuple(slots), along)

    def _own(self, phases: Sequence[Phase]) -> tuple[bool, ...]:
        elsewhere = {x.buffer for p in phases for s in p.slots for x in loads(s.body)}
        elsewhere |= {x.buffer for p in phases for v in p.values for x in loads(v.expr) if not self._is_own(x)}
        return tuple(s.before not in elsewhere for s in self.scan.states)

    def _is_own(self, x: Load) -> bool:
        """True if `x` reads the element at the axes; along an axis of extent 1 that is element 0, too."""
        return len(x.indices) == len(self.axes) and all(
            i is a.var or (prove_equal(i, const(0)) and prove_equal(a.extent, const(1)))
            for i, a in zip(x.indices, self.axes, strict=True)
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is read from memory and not inlined."""

    held: Container[Tensor]
    stored: Container[Tensor]

    def __contains__(self, t: object) -> bool:
        return t in self.held or t in self.stored
