"""From what one iteration of a loop does to buffers, what all of them do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from legato.arith.expr import Expr, Op, Select, Var, binary, const, lt, select
from legato.arith.prove import prove_all_equal, prove_equal
from legato.arith.substitute import rewrite, substitute, variables
from legato.base.dataclass import dataclass
from legato.te.sums import accumulation, begun
from legato.te.updates import Ranges, Unreadable, Update, linear, loads_of, widened
from legato.tir.buffer import Buffer
from legato.tir.expr import Load

__all__ = ["Turn", "with_one_pin"]


@dataclass(frozen=True, eq=False, slots=True)
class Turn:
    """One iteration of a loop over `v`, of `extent`: what it updates (each with at most one pin that follows the loop),
    relative to the `marks` of what buffers held when it began. `read` gives what an element held when the loop began,
    `reduced` an element of a new reduction."""

    v: Var
    extent: Expr
    updates: Mapping[Buffer, Update]
    marks: Mapping[Buffer, Buffer]
    ranges: Ranges
    read: Callable[[Buffer, Sequence[Expr]], Expr]
    reduced: Callable[[Update, Op, Expr], Expr]

    def all(self, u: Update) -> Update:
        """The update of all iterations, of what the loop began with."""
        mark = self.marks[u.buffer]
        at = [d for d, p in enumerate(u.pins) if p is not None and self.v in variables(p.begin, p.extent)]
        if at:
            self._require_own(u, at[0], mark)
            wide = widened(u, at[0], self.v, self.extent, mark, self.ranges)
            return Update(u.buffer, u.index, wide.pins, self._held(wide.value))
        others = [w.value for w in self.updates.values() if w is not u]
        own = set(loads_of([mark], u.value))
        if loads_of([mark], *others) or not all(prove_all_equal(x.indices, u.place) for x in own):
            raise self._crossing(u)
        total = Var(u.buffer.name, u.buffer.dtype)
        value = rewrite(u.value, lambda e: total if e in own else None)
        before = self.read(u.buffer, u.place)
        value = substitute(self._closed(u, value, total), {total: before})
        return Update(u.buffer, u.index, u.pins, self._held(value))

    def _require_own(self, u: Update, d: int, mark: Buffer) -> None:
        """Unreadable where an iteration reads along dimension `d` what another one stores."""
        pin = u.pins[d]
        assert pin is not None
        for w in self.updates.values():
            for x in loads_of([mark], w.value):
                i = x.indices[d]
                is_own = (w is u and i is u.index[d]) or (pin.is_one and prove_equal(i, pin.begin))
                if not is_own:
                    raise self._crossing(u)

    def _crossing(self, u: Update) -> Unreadable:
        return Unreadable(f"an iteration over {self.v.name} reads what others store to {u.buffer.name}")

    def _held(self, value: Expr) -> Expr:
        """`value` with what the marks stood for when the loop began."""
        of = {mark: b for b, mark in self.marks.items()}

        def step(e: Expr) -> Expr | None:
            return self.read(of[e.buffer], e.indices) if isinstance(e, Load) and e.buffer in of else None

        return rewrite(value, step)

    def _closed(self, u: Update, value: Expr, total: Var) -> Expr:
        """What all iterations make of `total`, of which one makes `value`."""
        if value is total:
            return total
        used = set(variables(value))
        if total not in used:
            last = substitute(value, {self.v: self.extent - 1})
            return self._if_any(last, total)
        if isinstance(value, Select) and not {self.v, total} & set(variables(value.cond)):
            return select(value.cond, self._closed(u, value.a, total), self._closed(u, value.b, total))
        start = begun(value, total, self.v)
        found = accumulation(value if start is None else start[1], total)
        if found is None:
            raise Unreadable(f"an iteration over {self.v.name} needs what the one before stored to {u.buffer.name}")
        op, term = found
        whole = self.reduced(u, op, self._held(term))
        return binary(op, total, whole) if start is None else self._if_any(binary(op, start[0], whole), total)

    def _if_any(self, value: Expr, total: Expr) -> Expr:
        """`value` if there is an iteration."""
        some = lt(const(0), self.extent)
        return value if self.ranges.holds(some) else select(some, value, total)


def with_one_pin(u: Update, v: Var, mark: Buffer, ranges: Ranges) -> Update:
    """`u` with at most one pin that follows the loop over `v`, and that a linear one of fixed width."""
    follow = [d for d, p in enumerate(u.pins) if p is not None and v in variables(p.begin, p.extent)]
    pins = {d: p for d in follow if (p := u.pins[d]) is not None}
    kept = next((d for d, p in pins.items() if v not in variables(p.extent) and linear(p.begin, v)), None)
    return u.freed([d for d in follow if d != kept], lambda at: Load(mark, at), ranges)
