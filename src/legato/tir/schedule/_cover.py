"""Which stores of a program part come first for every element that it touches.

A *root* store writes elements before anything in the part reads or writes them; every other access is *covered*: a root
before it has written its element in any case. A part whose reads are all covered does not depend on what was in the
buffer before.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Binary, Const, Expr, Op, Var
from legato.arith.linear import gather
from legato.arith.substitute import nodes, substitute
from legato.base.dataclass import dataclass
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.schedule._dependence import Access
from legato.tir.schedule._edit import is_guard
from legato.tir.schedule._region import Region
from legato.tir.stmt import Alloc, Block, For, If, Let, Stmt, Store

__all__ = ["Place", "roots", "stores_all", "uncovered"]


@dataclass(frozen=True, slots=True)
class Place:
    """An access with the statements around it, from the part's root on (the accessing statement last)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    stmt: Stmt
    around: tuple[Stmt, ...]
    is_write: bool

    def __str__(self) -> str:
        return f"{self.buffer.name}[{', '.join(map(str, self.indices))}]"


def uncovered(part: Stmt, path: Sequence[Stmt], buffer: Buffer) -> Place | None:
    """A read of `buffer` that may find what was there before `part`, if there is one; `path` is what is around."""
    return _classify(part, path, buffer)[1]


def roots(part: Stmt, path: Sequence[Stmt], buffer: Buffer) -> list[Place]:
    """The root stores of `buffer` in `part`."""
    return _classify(part, path, buffer)[0]


def stores_all(part: Stmt, buffer: Buffer) -> bool:
    """Whether `part` is shown to store to every element of `buffer`, and to read none before."""
    try:
        found, missing = _classify(part, (), buffer)
    except ScheduleError:
        return False
    return missing is None and any(_is_whole(root, part) for root in found)


def _is_whole(root: Place, part: Stmt) -> bool:
    if not all(isinstance(s, For | Store | Block | Alloc | Let) or is_guard(s) for s in root.around):
        return False
    region = Region(part, ())
    box = region.exact(root.indices)
    return (
        box is not None
        and _is_dense(root, [s for s in root.around if isinstance(s, For | If)])
        and all(
            region.holds(-span.lo) and region.holds(span.lo + span.size - extent)
            for span, extent in zip(box, root.buffer.shape, strict=True)
        )
    )


def _classify(part: Stmt, path: Sequence[Stmt], buffer: Buffer) -> tuple[list[Place], Place | None]:
    if not buffer.layout.is_dense:
        raise ScheduleError(f"{buffer.name} has a halo or stride padding", hint="set the layout afterwards")
    found: list[Place] = []
    missing: Place | None = None
    for place in _places(part, buffer):
        if any(_covers(root, place, path) for root in found):
            continue
        if place.is_write:
            found.append(place)
        elif missing is None:
            missing = place
    return found, missing


def _places(part: Stmt, buffer: Buffer) -> list[Place]:
    """Accesses in the order in which they happen within an iteration; Lets are expanded."""
    out: list[Place] = []
    stack: list[tuple[Stmt, tuple[Stmt, ...], dict[Var, Expr]]] = [(part, (), {})]
    while stack:
        s, around, lets = stack.pop()
        chain = (*around, s)
        exprs = tuple([substitute(e, lets) for e in s.exprs()])
        for e in nodes(*exprs):
            if isinstance(e, Load) and e.buffer is buffer:
                out.append(Place(buffer, e.indices, s, chain, False))
        if isinstance(s, Store) and s.buffer is buffer:
            out.append(Place(buffer, exprs[:-1], s, chain, True))
        if isinstance(s, Let):
            lets = {**lets, s.var: exprs[0]}
        stack += [(child, chain, lets) for child in reversed(s.children())]
    return out


def _covers(root: Place, place: Place, path: Sequence[Stmt]) -> bool:
    """Whether `root` has written the element of `place` whenever `place` is reached in the same iteration."""
    shared = 0
    while root.around[shared] is place.around[shared]:
        shared += 1
        if shared == min(len(root.around), len(place.around)):
            break
    last = root.around[shared - 1]
    own, theirs = root.around[shared:], place.around[shared:]
    if isinstance(last, If) and own and theirs:
        return False  # one in `then`, one in `else`
    if all(isinstance(s, Store | Block | Alloc | Let) for s in own) and root.indices == place.indices:
        return True
    if not all(isinstance(s, For | Store | Block | Alloc) or is_guard(s) for s in own):
        return False
    outer = (*path, *root.around[:shared])
    heads = [s for s in own if isinstance(s, For | If)]
    return _is_dense(root, heads) and _contains(root, own, theirs, place, outer)


def _contains(root: Place, own: Sequence[Stmt], theirs: Sequence[Stmt], place: Place, outer: Sequence[Stmt]) -> bool:
    """Whether the box of `root` contains that of `place`."""
    if not theirs:
        return False
    writes, reads = Region(own[0], outer), Region(theirs[0], outer)
    a = writes.exact(root.indices)
    b = reads.box(place.buffer, [Access(place.buffer, place.indices, False)])
    return a is not None and all(
        writes.holds(y.lo - x.lo) and writes.holds(x.lo + x.size - y.lo - y.size) for x, y in zip(a, b, strict=True)
    )


def _is_dense(root: Place, heads: Sequence[For | If]) -> bool:
    """Whether the loops of `root` reach every element of its box inside the buffer."""
    sizes = {h.var: h.extent for h in heads if isinstance(h, For)}
    used: set[Var] = set()
    for index in root.indices:
        mine = {v for v in sizes if v in nodes(index)}
        if mine & used or not _is_run(index, {v: sizes[v] for v in mine}):
            return False
        used |= mine
    if any(not isinstance(size, Const) or int(size.value) < 1 for v, size in sizes.items() if v not in used):
        return False  # it may not run at all
    return all(_only_bounds(h.cond, root) for h in heads if isinstance(h, If))


def _is_run(index: Expr, sizes: dict[Var, Expr]) -> bool:
    """Whether the subscript takes every value between its least and greatest."""
    terms, _ = gather(index)
    parts = []
    for t, c in terms.items():
        if isinstance(t, Var) and t in sizes:
            parts.append((abs(c), sizes[t]))
        elif any(n in sizes for n in nodes(t)):
            return False
    reach = 0
    for n, (c, size) in enumerate(sorted(parts, key=lambda p: p[0])):
        if c > reach + 1:
            return False
        if isinstance(size, Const):
            reach += c * (int(size.value) - 1)
        elif n < len(parts) - 1:
            return False
    return True


def _only_bounds(cond: Expr, root: Place) -> bool:
    """Whether a guard only keeps the subscripts of `root` inside the buffer."""
    if isinstance(cond, Binary) and cond.op is Op.AND:
        return _only_bounds(cond.a, root) and _only_bounds(cond.b, root)
    if not isinstance(cond, Binary) or cond.op not in (Op.LT, Op.LE):
        return False
    for index, extent in zip(root.indices, root.buffer.shape, strict=True):
        gap, total = gather(cond.b - cond.a)  # 0 < gap, or 0 <= gap
        limit = total - 1 if cond.op is Op.LT else total
        for least in (index, extent - 1 - index):  # each is at least 0 for an index inside
            terms, offset = gather(least)
            same = {t: c for t, c in terms.items() if c} == {t: c for t, c in gap.items() if c}
            if same and offset <= limit:
                return True
    return False
