"""Loops that do nothing: all that they would store is in, or computed from, buffers without elements.

A tensor may have the extents (2⁴⁰, 0). Loops over it that run 2⁴⁰ times and do nothing each time take an hour. But an
access beyond its buffer never happens: so where every store inside touches a buffer that has no elements, no store
happens, and the loop need not run. No test is needed where only one loop has an extent that is not known: whatever it
counts has elements then.
"""

from __future__ import annotations

from collections.abc import Iterator

from legato.arith.expr import Const, Expr, Select
from legato.base.node import post_order
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, Block, For, Func, If, Let, Prefetch, Stmt, Store

__all__ = ["Touched", "touched"]

# For each kind of store inside a loop that is seen outside it: buffers of which it accesses an element, if it happens.
Touched = frozenset[frozenset[Buffer]]
_Kinds = frozenset[tuple[Buffer, frozenset[Buffer]]]  # and where it stores to

_MOST = 16  # kinds of stores; a loop with more of them runs


def touched(func: Func) -> dict[Stmt, Touched]:
    """What the stores of each loop touch that has another loop in it, both of extents that are not known; nothing of
    loops with a store that may happen whatever is empty. Stores to memory that a loop has for itself do not count."""
    params = {p for p in func.params if isinstance(p, Buffer) and _tells(p)}
    if not params:
        return {}
    found: dict[Stmt, Touched] = {}
    inside: dict[int, tuple[_Kinds | None, bool]] = {}  # the same for any statement, and whether it has such a loop
    for s in post_order([func.body]):
        below = [inside[id(child)] for child in s.children()]
        kinds, has_loop = _joined([kind for kind, _ in below]), any(loop for _, loop in below)
        if isinstance(s, Store):
            kinds = frozenset([(s.buffer, frozenset(_accessed(s)) & params)])
        elif isinstance(s, Alloc) and kinds is not None:
            kinds = frozenset(kind for kind in kinds if kind[0] is not s.buffer)
        elif not isinstance(s, Block | For | If | Let | Prefetch):
            kinds = None
        if isinstance(s, For) and not isinstance(s.extent, Const):
            if has_loop and kinds and all(buffers for _, buffers in kinds):
                found[s] = frozenset(buffers for _, buffers in kinds)
            has_loop = True
        inside[id(s)] = kinds, has_loop
    return found


def _joined(kinds: list[_Kinds | None]) -> _Kinds | None:
    joined: set[tuple[Buffer, frozenset[Buffer]]] = set()
    for kind in kinds:
        if kind is None:
            return None
        joined |= kind
    return frozenset(joined) if len(joined) <= _MOST else None


def _tells(buffer: Buffer) -> bool:
    """Whether elements are all that is accessed of it, and it may have none."""
    has_margin = any(any(buffer.layout.halo_of(d)) or buffer.layout.pad_of(d) for d in range(buffer.rank))
    return not has_margin and any(not isinstance(extent, Const) for extent in buffer.shape)


def _accessed(store: Store) -> Iterator[Buffer]:
    """The buffers of `store` that it accesses whatever its values are."""
    yield store.buffer
    stack: list[Expr] = [store.value]
    seen: set[Expr] = set()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, Load):
            yield e.buffer
        else:  # the sides of a Select are lazy
            stack += (e.cond,) if isinstance(e, Select) else e.children()
