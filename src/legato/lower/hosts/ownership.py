"""Who releases which object: every owned handle is moved at its last use, or released right after it.

Parameters, and what a match takes out of an object, are borrowed. What calls, branches, constructors and reads of
references give is owned by the block that asks for it. A borrowed value keeps its owner alive: an owner is not released
before the last use of what was taken from it. Branches are given what is not used behind them (as in "Perceus: garbage
free reference counting with reuse", Reinking et al., 2021).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from legato.arith.expr import Expr
from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.ir import expr as ir
from legato.ir.let import Binding
from legato.lower.hosts.body import Body
from legato.lower.hosts.values import Value, flat
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.objects import Release, Retain

__all__ = ["Borrowed", "Owners", "handle"]


def handle(buffer: Buffer) -> Expr:
    """The handle that `buffer` holds."""
    return Load(buffer, ())


@dataclass(slots=True)
class Borrowed:
    """Where values come from: `sources` of a handle or tensor, what must live as long; `boxes` of a tensor that is an
    object, its handle."""

    sources: dict[Buffer, Buffer] = field(default_factory=dict)
    boxes: dict[Buffer, Buffer] = field(default_factory=dict)

    def box(self, tensor: Buffer, handle: Buffer) -> None:
        """Notes that `tensor` is the payload of the object `handle`."""
        self.boxes[tensor] = self.sources[tensor] = handle

    def roots(self, value: Value) -> Iterator[Buffer]:
        """Everything that must live as long as `value`."""
        for leaf in flat(value):
            at: Buffer | None = leaf
            while at is not None:
                yield at
                at = self.sources.get(at)


@dataclass(slots=True)
class Owners:
    """The handles that a block owns, with the position of the binding that uses each last; `now` is the current one.

    due: what may be released behind a binding, by its position; what is used later or has been moved may be there, too.
    """

    borrowed: Borrowed
    last: Mapping[ir.Var, int]
    held: dict[Buffer, int] = field(default_factory=dict)
    due: dict[int, dict[Buffer, None]] = field(default_factory=dict)
    now: int = -1

    @staticmethod
    def of(
        borrowed: Borrowed,
        bindings: Sequence[Binding],
        result: ir.Expr,
        given: Iterable[Buffer],
        env: Mapping[ir.Var, Value],
    ) -> Owners:
        """Those of a block that is given some to begin with."""
        last: dict[ir.Var, int] = {}
        for n, expr in enumerate((*(value for _, value in bindings), result)):
            last.update((v, n) for v in post_order([expr]) if isinstance(v, ir.Var))
        owners = Owners(borrowed, last)
        for handle in given:
            owners.own(handle)
        if owners.held:
            for var in [v for v in last if v in env]:
                owners.uses(var, env[var])
        return owners

    def uses(self, var: ir.Var, value: Value) -> None:
        """`value`, which `var` stands for, keeps what it comes from alive until the last use of `var`."""
        if self.held:
            for root in self.borrowed.roots(value):
                if root in self.held:
                    self._hold(root, max(self.held[root], self.last.get(var, self.now)))

    def own(self, handle: Buffer) -> Buffer:
        """`handle`, which the block owns from now on."""
        self._hold(handle, self.now)
        return handle

    def _hold(self, handle: Buffer, last: int) -> None:
        self.held[handle] = last
        self.due.setdefault(last, {})[handle] = None

    def take(self, leaf: Buffer, later: Sequence[Buffer], out: Body) -> None:
        """Makes the handle in `leaf` that of somebody else: it is moved if nobody here needs it any more, neither those
        of `later` nor a later binding."""
        if self.held.get(leaf, self.now + 1) <= self.now and leaf not in later:
            del self.held[leaf]
        else:
            out.append(Retain(handle(leaf)))

    def give(self, place: Value = ()) -> tuple[Buffer, ...]:
        """What branches may have, because nothing behind them needs it; it is theirs now. The objects of `place`, where
        they leave their results, are not."""
        kept = set(self.borrowed.roots(place))
        due = [h for h in self.due.pop(self.now, ()) if self.held.get(h) == self.now]
        given = tuple(h for h in due if h not in kept)
        for h in given:
            del self.held[h]
        for h in due:
            if h in kept:
                self._hold(h, self.now)
        return given

    def release(self, out: Body) -> None:
        """Releases what is needed no more."""
        for h in self.give():
            out.append(Release(handle(h)))
