"""The memory plan: every buffer that a host function allocates gets a place in one arena.

Buffers whose lives do not overlap share memory. A life runs from the first statement that mentions the buffer to the
last; a buffer that is alive anywhere in a loop and defined before it lives to the loop's end. What a kernel computes
element by element from a buffer that dies there takes over that buffer's memory. Static sizes are placed
largest first at the lowest free offset (greedy by size, Pisarchyk & Lee, "Efficient memory management for deep neural
net inference", 2020), symbolic ones in regions (`lower.regions`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from legato.arith.expr import Const, Expr, cdiv, const
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.lower.regions import nested
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, Func, Launch, Stmt, View, While
from legato.tir.walk import buffers_used, statements

__all__ = ["Plan", "plan_memory"]

ALIGN = 64
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Byte offsets of buffers in an arena of `size` bytes."""

    offsets: dict[Buffer, Expr]
    size: Expr


@dataclass(slots=True)
class _Life:
    """From `first` to `last`, some memory holds `buffers`, one after the other."""

    buffers: list[Buffer]
    first: int
    last: int
    bytes: Expr


def plan_memory(
    func: Func,
    buffers: Sequence[Buffer],
    views: Mapping[Buffer, tuple[Buffer, Expr]] = MappingProxyType({}),
    in_place: Callable[[str], Pairs] = lambda _: (),
) -> tuple[Func, Plan]:
    """`func` with one arena that holds `buffers` (which its body uses freely), and the plan.

    `views` are buffers that lie in others, or in parameters or constants: in which, and from which byte on. `in_place`
    gives the pairs (input, output) of a kernel's arguments that may be the same memory.
    """
    lives = _lives(func.body, buffers, views, in_place)
    plan = _place(lives)
    body = func.body
    for view, (base, offset) in views.items():
        body = View(view, base, simplify(offset), body)
    if not lives:
        return func.with_body(body), plan
    arena = Buffer("arena", (plan.size,), dt.uint8)
    for buffer in reversed([b for life in lives for b in life.buffers]):
        body = View(buffer, arena, plan.offsets[buffer], body)
    return func.with_body(Alloc(arena, body)), plan


def buffer_bytes(buffer: Buffer) -> Expr:
    """The memory of `buffer`, rounded up to the alignment."""
    size = buffer.elements() * buffer.dtype.bytes
    return simplify(cdiv(size, ALIGN) * ALIGN)


def _lives(
    body: Stmt, buffers: Iterable[Buffer], views: Mapping[Buffer, tuple[Buffer, Expr]], in_place: Callable[[str], Pairs]
) -> list[_Life]:
    wanted = set(buffers)
    lives: dict[Buffer, _Life] = {}
    order = list(statements(body))
    end_of = _loop_ends(order)
    base = {b: within for b, (within, _) in views.items()}
    for time, stmt in enumerate(order):
        if isinstance(stmt, View):
            base[stmt.buffer] = base.get(stmt.base, stmt.base)
        if stmt.children():
            used: Sequence[Buffer] = [e.buffer for e in _loads_of(stmt)]
        else:
            used = buffers_used(stmt)
        for buffer in [base.get(b, b) for b in used]:
            if buffer not in wanted:
                continue
            life = lives.get(buffer)
            if life is None:
                lives[buffer] = _Life([buffer], time, time, buffer_bytes(buffer))
            else:
                life.last = max(life.last, time, *(end for start, end in end_of if life.first < start <= time <= end))
    for time, stmt in enumerate(order):
        if isinstance(stmt, Launch):
            for read, written in in_place(stmt.kernel):
                _reuse(lives, stmt, time, stmt.args[read], stmt.args[written], views)
    return list({id(life): life for life in lives.values()}.values())


def _reuse(
    lives: dict[Buffer, _Life], launch: Launch, time: int, source: object, target: object, views: Mapping[Any, Any]
) -> None:
    """Lets `target`, which a launch writes, begin to live in the memory of `source`, which it reads, if that dies there
    and is one of `lives` (neither a parameter nor a constant nor part of another buffer), and read by that name alone.
    """
    if not isinstance(source, Buffer) or not isinstance(target, Buffer):
        return
    old, new = lives.get(source), lives.get(target)
    if old is None or new is None or old is new or old.last != time or new.first != time:
        return
    read = [views[a][0] if a in views else a for a in launch.args if isinstance(a, Buffer)]
    if read.count(source) > 1 or old.bytes is not new.bytes:
        return
    old.last = new.last
    old.buffers.append(target)
    lives[target] = old


def _loads_of(stmt: Stmt) -> list[Load]:
    return [e for root in stmt.exprs() for e in nodes(root) if isinstance(e, Load)]


def _loop_ends(order: Sequence[Stmt]) -> list[tuple[int, int]]:
    """(first, last) position of the statements of each While."""
    position = {id(stmt): n for n, stmt in enumerate(order)}
    return [
        (position[id(stmt)], position[id(stmt)] + sum(1 for _ in statements(stmt)) - 1)
        for stmt in order
        if isinstance(stmt, While)
    ]


def _place(lives: Sequence[_Life]) -> Plan:
    if all(isinstance(life.bytes, Const) for life in lives):
        return _place_static(lives)
    return _place_symbolic(lives)


def _place_static(lives: Sequence[_Life]) -> Plan:
    placed = _Timeline(max((life.last for life in lives), default=0))
    offsets: dict[Buffer, Expr] = {}
    total = 0
    for life in sorted(lives, key=lambda x: (-_int(x.bytes), x.first)):
        size, offset = _int(life.bytes), 0
        for start, end in sorted(placed.overlapping(life)):
            if offset + size <= start:
                break
            offset = max(offset, end)
        placed.add(life, (offset, offset + size))
        offsets.update(dict.fromkeys(life.buffers, const(offset)))
        total = max(total, offset + size)
    return Plan(offsets, const(total))


class _Timeline:
    """Places of buffers by their lives, in a tree over time (a segment tree: Bentley, 1977).

    Node 1 stands for all of time, node n for what its halves 2n and 2n + 1 stand for together. A life lies in the few
    nodes that make it up, so those that overlap another one are found without looking at the rest.
    """

    def __init__(self, last: int) -> None:
        self.leaves = 1 << last.bit_length()
        self.nodes: dict[int, list[tuple[int, int]]] = {}
        self.above: set[int] = set()  # nodes with something below them

    def add(self, life: _Life, place: tuple[int, int]) -> None:
        """Notes the place of what lives then."""
        low, high = life.first + self.leaves, life.last + self.leaves + 1
        while low < high:
            if low & 1:
                self._put(low, place)
                low += 1
            if high & 1:
                high -= 1
                self._put(high, place)
            low, high = low >> 1, high >> 1

    def _put(self, node: int, place: tuple[int, int]) -> None:
        self.nodes.setdefault(node, []).append(place)
        node >>= 1
        while node and node not in self.above:
            self.above.add(node)
            node >>= 1

    def overlapping(self, life: _Life) -> set[tuple[int, int]]:
        """The places of all that live at some time of `life`."""
        found: set[tuple[int, int]] = set()
        stack = [(1, 0, self.leaves - 1)]
        while stack:
            node, first, last = stack.pop()
            if last < life.first or life.last < first:
                continue
            found.update(self.nodes.get(node, ()))
            if node in self.above:
                middle = (first + last) // 2
                stack += [(2 * node, first, middle), (2 * node + 1, middle + 1, last)]
        return found


def _int(size: Expr) -> int:
    assert isinstance(size, Const)
    return int(size.value)


def _place_symbolic(lives: Sequence[_Life]) -> Plan:
    starts, size = nested([(life.first, life.last, life.bytes) for life in lives])
    return Plan({b: start for life, start in zip(lives, starts, strict=True) for b in life.buffers}, size)
