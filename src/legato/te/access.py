"""The proof that a stage reads its operands within their shapes, for all values of the dims.

    y[i] = select(1 <= i and i <= n, x[i - 1], 0)       0 <= i - 1 and i - 1 < n: proven, from the guard

Every load of a stage is looked at under the ranges of its axes and the conditions of the selects around it, and each of
its subscripts is to be proven at least 0 and below the operand's extent there.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from legato.arith.assume import Assumptions, facts_of
from legato.arith.bounds import Bounds
from legato.arith.expr import Const, Expr, Select, Var, const, land, lt, max_, min_, select
from legato.arith.interval import Interval
from legato.arith.substitute import nodes, rewrite
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.te.order import in_order
from legato.te.tensor import Stage, Tensor
from legato.tir.expr import Load

__all__ = ["CLAMP", "Access", "Proof", "accesses", "clamp"]

CLAMP: Final = "clamp"  # attribute of a primitive function whose subscripts are clamped where they are not proven


class Proof(enum.Enum):
    """Why a subscript is within its extent."""

    PROVEN = "proven"  # for all values of the dims
    CHECKED = "checked"  # for those that the constraints, which a call checks, allow
    CLAMPED = "clamped"  # it comes from data, and its definition keeps it inside
    OPEN = "open"  # not proven


@dataclass(frozen=True, eq=False, slots=True)
class Access:
    """Subscript number `axis` of `load` in the stage of `reader`, whose axes have `extents`."""

    reader: Tensor
    load: Load
    axis: int
    extents: Mapping[Var, Expr]
    proof: Proof

    @property
    def subscript(self) -> Expr:
        """The subscript."""
        return self.load.indices[self.axis]

    @property
    def extent(self) -> Expr:
        """What it has to be below."""
        return self.load.buffer.shape[self.axis]

    def __str__(self) -> str:
        return f"0 <= {self.subscript} < {self.extent}"


def accesses(outputs: Iterable[Tensor], facts: Iterable[Expr] = ()) -> Iterator[Access]:
    """Every subscript of the stages that compute `outputs`, where each of `facts` (of dims) is at least 0."""
    known = tuple(facts)
    for t in in_order(outputs):
        stage = t.stage
        if not isinstance(stage, Stage):
            continue
        own = {a.var: a.extent for a in stage.axes}
        red = stage.reduction
        parts = [(stage.body, own if red is None else {**own, **{a.var: a.extent for a in red.axes}})]
        parts += [] if red is None or red.init is None else [(red.init, own)]
        for body, extents in parts:
            if not any(isinstance(e, Const) and e.value <= 0 for e in extents.values()):
                yield from _of_body(t, body, extents, _Scope(extents, known))


def clamp(outputs: Iterable[Tensor]) -> None:
    """Clamps, in the stages that compute `outputs`, the subscripts that are not proven without knowing of constraints;
    what would be read of an operand without elements is 0."""
    unproven: dict[Tensor, set[Expr]] = {}
    for access in accesses(outputs):
        if access.proof is Proof.OPEN:
            unproven.setdefault(access.reader, set()).add(access.load)
    for t, loads in unproven.items():
        assert isinstance(t.stage, Stage)
        body = rewrite(t.stage.body, lambda e, loads=loads: _clamped(e) if e in loads else None)  # type: ignore[misc]
        t.stage = Stage(t.stage.axes, body, t.stage.reduction)


def _clamped(load: Expr) -> Expr:
    assert isinstance(load, Load)
    pairs = list(zip(load.indices, load.buffer.shape, strict=True))
    inside = Load(load.buffer, tuple(max_(min_(i, n - 1), const(0)) for i, n in pairs))
    some: Expr = const(True, dt.bool_)
    for _, n in pairs:
        some = land(some, lt(const(0), n))
    return select(some, inside, const(0, load.dtype))


class _Scope:
    """What is known at a place in a stage's body: `guards` of the selects around it, and `facts` of the dims."""

    __slots__ = ("_bounds", "_extents", "_facts", "_guards", "_known", "_stated")

    def __init__(self, extents: Mapping[Var, Expr], facts: tuple[Expr, ...], guards: tuple[Expr, ...] = ()) -> None:
        self._extents, self._facts, self._guards = extents, facts, guards
        self._bounds = Bounds({v: Interval(0, int(e.value) - 1) for v, e in extents.items() if isinstance(e, Const)})
        self._known: Assumptions | None = None
        self._stated: Assumptions | None = None

    def given(self, guards: Iterable[Expr]) -> _Scope:
        more = tuple(guards)
        return _Scope(self._extents, self._facts, (*self._guards, *more)) if more else self

    def proof(self, subscript: Expr, extent: Expr) -> Proof:
        """Why 0 <= subscript < extent; first by bounds alone, which is enough where extents are literals."""
        if isinstance(subscript, Var) and self._extents.get(subscript) is extent:
            return Proof.PROVEN
        lo, hi = self._bounds.of(subscript)
        is_inside = lo is not None and hi is not None and isinstance(extent, Const) and lo >= 0 and hi < extent.value
        if is_inside or self._without_facts(subscript, extent):
            return Proof.CLAMPED if any(isinstance(n, Load) for n in nodes(subscript)) else Proof.PROVEN
        return Proof.CHECKED if self._with_facts(subscript, extent) else Proof.OPEN

    def _without_facts(self, subscript: Expr, extent: Expr) -> bool:
        if self._known is None:
            self._known = Assumptions(self._extents, self._guards)
        return _inside(self._known, subscript, extent)

    def _with_facts(self, subscript: Expr, extent: Expr) -> bool:
        if not self._facts:
            return False
        if self._stated is None:
            self._stated = Assumptions(self._extents, (*self._guards, *self._facts))
        return _inside(self._stated, subscript, extent)


def _inside(known: Assumptions, subscript: Expr, extent: Expr) -> bool:
    return known.nonnegative(subscript) and known.below(subscript, extent)


def _of_body(reader: Tensor, body: Expr, extents: Mapping[Var, Expr], scope: _Scope) -> Iterator[Access]:
    todo: list[tuple[Expr, _Scope]] = [(body, scope)]
    seen: dict[tuple[Expr, int], _Scope] = {}  # holds the scope so that its id stays its own
    while todo:
        e, known = todo.pop()
        if (e, id(known)) in seen:
            continue
        seen[e, id(known)] = known
        if isinstance(e, Select):
            todo += [(e.cond, known), (e.a, known.given(facts_of(e.cond))),
                     (e.b, known.given(facts_of(e.cond, holds=False)))]  # fmt: skip
            continue
        todo += [(k, known) for k in e.children()]
        if isinstance(e, Load) and isinstance(e.buffer, Tensor):
            for axis, i in enumerate(e.indices):
                yield Access(reader, e, axis, extents, known.proof(i, e.buffer.shape[axis]))
