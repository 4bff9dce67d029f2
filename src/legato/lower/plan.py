"""The memory plan: every buffer that a host function allocates gets a place in the arena of its device.

Buffers whose lives (`lower.lives`) do not overlap share memory. Static sizes are placed largest first at the lowest
free offset (greedy by size, Pisarchyk & Lee, "Efficient memory management for deep neural net inference", 2020),
symbolic ones in regions (`lower.regions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType

from legato.arith.expr import Const, Expr, const, ne
from legato.arith.simplify import simplify
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.device import HOST, Device
from legato.base.node import transform
from legato.lower.lives import NOTHING_SHARED, Life, Lives, Pairs, Places, Sharing
from legato.lower.regions import nested
from legato.tir.buffer import Buffer
from legato.tir.expr import Address
from legato.tir.stmt import Alloc, Func, If, Stmt, View, block
from legato.tir.walk import replace_buffer

__all__ = ["Plan", "plan_memory"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Byte offsets of buffers in the `arenas` of their devices, which have `size` bytes together; `shared` are pairs
    (input, result) of places among the parameters that a caller may give the same memory, if it needs the input no
    more."""

    offsets: dict[Buffer, Expr]
    size: Expr
    shared: Pairs = ()
    arenas: Mapping[Device, Expr] = field(default_factory=dict)


def plan_memory(
    func: Func,
    buffers: Sequence[Buffer],
    views: Places = MappingProxyType({}),
    sharing: Sharing = NOTHING_SHARED,
    results: Sequence[Buffer] = (),
    devices: Mapping[Buffer, Device] = MappingProxyType({}),
) -> tuple[Func, Plan]:
    """`func` with an arena for each device that holds those of `buffers` (which its body uses freely) which lie there,
    and the plan.

    `views` are buffers that lie in others, or in parameters or constants; `results` are the parameters that hold
    tensors in the end.
    """
    params = [p for p in func.params if isinstance(p, Buffer) and p.rank]
    lives = Lives.find(func.body, buffers, params, results, views, sharing)
    own = [life for life in {id(life): life for life in lives.of.values()}.values() if life.home is None]
    on = _by_device(own, devices)
    plans = {device: _place(there) for device, there in on.items()}
    plan = _together(plans)
    shared = lives.shared(results)
    at = {p: n for n, p in enumerate(func.params)}
    plan = replace(plan, shared=tuple((at[param], at[result]) for param, result in shared.items()))
    same = {b: lives.one(b) for b in lives.same}
    body = replace_buffer(_with_copies(func.body, lives, shared), same)
    for view, (base, offset) in views.items():
        body = View(view, same.get(base, base), simplify(offset), body)
    for buffer, life in lives.of.items():
        if life.home is not None and buffer is not life.home and buffer not in same:
            body = View(buffer, life.home, const(0), body)
    for device, there in on.items():
        arena = Buffer("arena" if device == HOST else f"arena_{device.name}", (plan.arenas[device],), dt.uint8)
        for buffer in reversed([b for life in there for b in life.buffers if b not in same]):
            body = View(buffer, arena, plan.offsets[buffer], body)
        body = Alloc(arena, body)
    return func.with_body(body), plan


def _by_device(lives: Sequence[Life], devices: Mapping[Buffer, Device]) -> dict[Device, list[Life]]:
    """The lives of memory on each device: kernels share what they read and write, and run on one."""
    found: dict[Device, list[Life]] = {}
    for life in lives:
        (device,) = {devices.get(buffer, HOST) for buffer in life.buffers}
        found.setdefault(device, []).append(life)
    return found


def _together(plans: Mapping[Device, Plan]) -> Plan:
    """The plans of arenas as one."""
    size: Expr = const(0)
    for plan in plans.values():
        size = size + plan.size
    offsets = {buffer: offset for plan in plans.values() for buffer, offset in plan.offsets.items()}
    return Plan(offsets, simplify(size), arenas={device: plan.size for device, plan in plans.items()})


def _with_copies(body: Stmt, lives: Lives, shared: Mapping[Buffer, Buffer]) -> Stmt:
    """`body` without the copies of buffers to where they lie already; whether a parameter does is tested there."""
    new: dict[Stmt, Stmt] = {}
    for stmt, old, made in lives.copied():
        if old is made:
            new[stmt] = block()
        elif old.home is not None and made.home is not None and shared.get(old.home) is made.home:
            new[stmt] = If(ne(Address(old.home), Address(made.home)), stmt)
    return transform(body, new.get) if new else body


def _place(lives: Sequence[Life]) -> Plan:
    if all(isinstance(life.bytes, Const) for life in lives):
        return _place_static(lives)
    return _place_symbolic(lives)


def _place_static(lives: Sequence[Life]) -> Plan:
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

    def add(self, life: Life, place: tuple[int, int]) -> None:
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

    def overlapping(self, life: Life) -> set[tuple[int, int]]:
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


def _place_symbolic(lives: Sequence[Life]) -> Plan:
    starts, size = nested([(life.first, life.last, life.bytes) for life in lives])
    return Plan({b: start for life, start in zip(lives, starts, strict=True) for b in life.buffers}, size)
