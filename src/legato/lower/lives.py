"""When the buffers of a host function hold what is still to be read, and which of them may share memory.

A life runs from the first statement that mentions the buffer to the last; a buffer that is alive anywhere in a loop and
defined before it lives to the loop's end. What a kernel computes element by element from a buffer that dies there takes
over that buffer's memory. A copy of what is not read any more where the copy has been changed needs no memory of its
own, and no copy: both are one buffer, be it that of a result. Where the original is a parameter, the caller decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from legato.arith.expr import Expr, cdiv
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes
from legato.base.dataclass import dataclass
from legato.lower.flow import Flow
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.stmt import Invoke, Launch, Stmt, View
from legato.tir.walk import buffers_used

__all__ = ["NOTHING_SHARED", "Life", "Lives", "Pairs", "Places", "Sharing", "buffer_bytes"]

ALIGN = 64
Pairs = tuple[tuple[int, int], ...]
Places = Mapping[Buffer, tuple[Buffer, Expr]]  # buffers that lie in others: in which, and from which byte on


@dataclass(slots=True)
class Life:
    """From `first` to `last`, some memory holds `buffers`, one after the other: that of the parameter `home`, if any.
    They are mentioned at `times`."""

    buffers: list[Buffer]
    first: int
    last: int
    bytes: Expr
    home: Buffer | None = None
    times: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sharing:
    """What may share memory: `in_place` gives the pairs (input, output) of the arguments of a kernel or host function
    that may be the same, by its name; `copies` are the kernels that only copy."""

    in_place: Callable[[str], Pairs]
    copies: Collection[str]

    def pairs(self, stmt: Stmt) -> list[tuple[Buffer, Buffer]]:
        """The arguments (read, written) of a call that may be the same memory, if nobody reads the first one later."""
        if not isinstance(stmt, Launch | Invoke):
            return []
        args, is_copy = stmt.args, self.is_copy(stmt)
        places = ((0, 1),) if is_copy else self.in_place(stmt.kernel if isinstance(stmt, Launch) else stmt.func)
        found = [(args[read], args[made]) for read, made in places]
        pairs = [(a, b) for a, b in found if isinstance(a, Buffer) and isinstance(b, Buffer)]
        return [(a, b) for a, b in pairs if not is_copy or _is_alike(a, b)]

    def is_copy(self, stmt: Stmt) -> bool:
        """Whether `stmt` copies its first argument to the second, and does nothing else."""
        return isinstance(stmt, Launch) and stmt.kernel in self.copies


NOTHING_SHARED: Final = Sharing(lambda _: (), ())


def _is_alike(a: Buffer, b: Buffer) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.layout == b.layout


def buffer_bytes(buffer: Buffer) -> Expr:
    """The memory of `buffer`, rounded up to the alignment."""
    size = buffer.elements() * buffer.dtype.bytes
    return simplify(cdiv(size, ALIGN) * ALIGN)


@dataclass(frozen=True, slots=True)
class Lives:
    """The lives of buffers of a function, `of` each: one of those that share memory. `base` says in what others lie;
    `same`: which other buffer a copy is, or what it was made of."""

    flow: Flow
    sharing: Sharing
    base: dict[Buffer, Buffer]
    of: dict[Buffer, Life] = field(default_factory=dict)
    same: dict[Buffer, Buffer] = field(default_factory=dict)

    @staticmethod
    def find(
        body: Stmt, buffers: Iterable[Buffer], params: Collection[Buffer], results: Collection[Buffer], views: Places,
        sharing: Sharing,
    ) -> Lives:  # fmt: skip
        """Those of `buffers`, which are to be placed, and of `params`; the `results` among these live on."""
        found = Lives(Flow.of(body), sharing, {b: within for b, (within, _) in views.items()})
        found._note(set(buffers), set(params), set(results))
        for time, stmt in enumerate(found.flow.order):
            for read, made in sharing.pairs(stmt):
                found._share(time, read, made, is_kernel=isinstance(stmt, Launch) and not sharing.is_copy(stmt))
        return found

    def _note(self, wanted: set[Buffer], params: set[Buffer], results: set[Buffer]) -> None:
        order = self.flow.order
        for time, stmt in enumerate(order):
            if isinstance(stmt, View):
                self.base[stmt.buffer] = self.base.get(stmt.base, stmt.base)
            for buffer in dict.fromkeys(self.base.get(b, b) for b in _used_by(stmt)):
                life = self.of.get(buffer)
                if life is None and (buffer in wanted or buffer in params):
                    home, last = buffer if buffer in params else None, len(order) if buffer in results else time
                    life = self.of[buffer] = Life([buffer], time, last, buffer_bytes(buffer), home)
                if life is not None:
                    life.times.append(time)
                    ends = (end for start, end in self.flow.loops if life.first < start <= time <= end)
                    life.last = max(life.last, time, *ends)

    def _share(self, time: int, source: Buffer, target: Buffer, *, is_kernel: bool) -> None:
        """Lets `target`, which the call at `time` writes, live in the memory of `source`, which it reads, if that is
        to be placed, not needed any more, and read by that name alone."""
        old, new = self.of.get(source), self.of.get(target)
        if old is None or new is None or old is new or old.home is not None or old.bytes is not new.bytes:
            return
        if is_kernel:
            if new.home is not None or old.last != time or new.first != time or not self._is_shared(time, old, new):
                return
        elif not self.may_share(old, new):
            return
        if self.sharing.is_copy(self.flow.order[time]):
            first, last = (source, new.home) if new.home is not None else (target, source)
            self.same[self.one(first)] = self.one(last)
        old.first, old.last, old.home = min(old.first, new.first), max(old.last, new.last), new.home
        old.buffers += new.buffers
        old.times += new.times
        self.of.update(dict.fromkeys(new.buffers, old))

    def one(self, buffer: Buffer) -> Buffer:
        """What `buffer` is (union-find, Tarjan 1975)."""
        while buffer in self.same:
            above = self.same[buffer]
            self.same[buffer] = self.same.get(above, above)
            buffer = above
        return buffer

    def may_share(self, old: Life, new: Life) -> bool:
        """Whether nobody mentions `old` behind a statement that mentions `new`, and at the same time only what may
        have both in one place."""
        if old.last <= new.first and not (self.flow.loops and (old.home or new.home)):
            return old.last < new.first or self._is_shared(old.last, old, new)
        life = min(old.first, new.first), max(old.last, new.last)
        return all(self._is_shared(time, old, new) for time in {*old.times}.intersection(new.times)) and not any(
            read != made and self.flow.reaches(made, read, life) for read in reversed(old.times) for made in new.times
        )

    def _is_shared(self, time: int, old: Life, new: Life) -> bool:
        stmt, of = self.flow.order[time], self.of
        pairs = self.sharing.pairs(stmt)
        if not any(of.get(a) is old and of.get(b) is new for a, b in pairs):
            return False
        assert isinstance(stmt, Launch | Invoke)
        given = [of.get(self.base.get(a, a)) for a in stmt.args if isinstance(a, Buffer)]
        return sum(life is old for life in given) == sum(life is new for life in given) == 1

    def shared(self, results: Collection[Buffer]) -> dict[Buffer, Buffer]:
        """The parameters that may lie where a result does, which is made of them in place: each with that result."""
        found: dict[Buffer, Buffer] = {}
        for stmt in self.flow.order:
            for read, made in self.sharing.pairs(stmt):
                old, new = self.of.get(read), self.of.get(made)
                home = None if new is None else new.home
                if old is None or new is None or old.home is not read or read in results or home not in results:
                    continue
                assert home is not None
                is_free = read not in found and home not in found.values()
                if is_free and _is_alike(read, home) and self.may_share(old, new):
                    found[read] = home
        return found

    def copied(self) -> Iterator[tuple[Stmt, Life, Life]]:
        """The copies, each with the lives of both sides, where they have some."""
        for stmt in self.flow.order:
            for read, made in self.sharing.pairs(stmt) if self.sharing.is_copy(stmt) else ():
                if read in self.of and made in self.of:
                    yield stmt, self.of[read], self.of[made]


def _used_by(stmt: Stmt) -> Sequence[Buffer]:
    """The buffers that a statement mentions, without those inside it."""
    return [e.buffer for e in _loads_of(stmt)] if stmt.children() else buffers_used(stmt)


def _loads_of(stmt: Stmt) -> list[Load]:
    return [e for root in stmt.exprs() for e in nodes(root) if isinstance(e, Load)]
