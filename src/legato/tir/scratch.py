"""Memory that a kernel allocates and that has no place on a stack: its caller's.

    parallel i in 0..n: alloc t[m]: s(t)      =>      kernel(…, t[n, m]): parallel i in 0..n: s(t[i])

What is of symbolic size, or large, becomes a parameter behind the other buffers. Iterations of PARALLEL and VECTOR
loops around have each their own part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from legato.arith.expr import Const, Expr, Var
from legato.arith.substitute import substitute, variables
from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.base.node import transform
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, For, Func, Let, LoopKind, Prefetch, Stmt, Store
from legato.tir.walk import has_load, loops, rewrite_loads

__all__ = ["with_scratch"]

_STACK: Final = 1 << 15  # bytes of a buffer that may lie there
_SHARING = (LoopKind.PARALLEL, LoopKind.VECTOR)


@dataclass(frozen=True, slots=True)
class _Moved:
    """A buffer of the caller's, and the loops of which each iteration has its own part."""

    buffer: Buffer
    own: tuple[Var, ...]


def with_scratch(func: Func) -> tuple[Func, tuple[Buffer, ...]]:
    """Kernel `func` with the parameters that it needs more, which stand before its index parameters, and these.

    UnsupportedError where their sizes depend on more than parameters.
    """
    moved = {alloc.buffer: _moved(func, alloc, around) for alloc, around in _allocs(func) if _is_large(alloc.buffer)}
    if not moved:
        return func, ()
    new = tuple(m.buffer for m in moved.values())
    buffers = [p for p in func.params if isinstance(p, Buffer)]
    params = (*buffers, *new, *func.params[len(buffers) :])
    return Func(func.name, params, _rewritten(func.body, moved), func.kind, func.constants, func.span), new


def _is_large(b: Buffer) -> bool:
    elements = b.elements()
    is_small = isinstance(elements, Const) and int(elements.value) * b.dtype.bytes <= _STACK
    return b.scope is Scope.GLOBAL or not is_small


def _allocs(func: Func) -> list[tuple[Alloc, tuple[Stmt, ...]]]:
    """What is allocated, each with the loops and Lets around it."""
    found: list[tuple[Alloc, tuple[Stmt, ...]]] = []
    todo: list[tuple[Stmt, tuple[Stmt, ...]]] = [(func.body, ())]
    while todo:
        s, around = todo.pop()
        if isinstance(s, Alloc):
            found.append((s, around))
        inner = (*around, s) if isinstance(s, For | Let) else around
        todo += [(child, inner) for child in reversed(s.children())]
    return found


def _moved(func: Func, alloc: Alloc, around: Sequence[Stmt]) -> _Moved:
    old, lets = alloc.buffer, dict[Var, Expr]()
    for s in around:
        if isinstance(s, Let) and not has_load(s.value):
            lets[s.var] = substitute(s.value, lets)
    sharing = [s for s in around if isinstance(s, For) and s.kind in _SHARING]
    is_inside = any(s.kind is LoopKind.PARALLEL for s in sharing)
    if old.scope is not Scope.GLOBAL and not is_inside and any(s.kind is LoopKind.PARALLEL for s in loops(func)):
        why = "each thread needs its own: it is allocated outside the parallel loop"
        raise _error(func, old, why, "allocate it inside the parallel loop, or in the scope global")
    shape = tuple(substitute(d, lets) for d in (*(s.extent for s in sharing), *old.shape))
    strange = [v.name for d in shape for v in variables(d) if v not in func.params]
    if strange or any(map(has_load, shape)):
        what = ", ".join(strange) or "what is in memory"
        why = f"its size, or how many of it there are, depends on {what}"
        raise _error(func, old, why, "give it an extent of numbers and parameters, the largest that it may have")
    count = len(sharing)
    order = (*range(count), *(d + count for d in old.layout.order))
    halo = ((0, 0),) * count + old.layout.halo if old.layout.halo else ()
    pad = (0,) * count + old.layout.pad if old.layout.pad else ()
    layout = Layout(order, halo, old.layout.halo_value, pad)
    return _Moved(Buffer(old.name, shape, old.dtype, layout), tuple(s.var for s in sharing))


def _error(func: Func, buffer: Buffer, why: str, hint: str) -> UnsupportedError:
    return UnsupportedError(f"@{func.name} cannot allocate {buffer.name}: {why}", span=func.span, hint=hint)


def _rewritten(body: Stmt, moved: Mapping[Buffer, _Moved]) -> Stmt:
    def load(x: Load) -> Expr | None:
        place = moved.get(x.buffer)
        return None if place is None else Load(place.buffer, (*place.own, *x.indices))

    def step(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.buffer in moved:
            return s.body
        place = moved.get(s.buffer) if isinstance(s, Store | Prefetch) else None
        if place is None:
            return None
        assert isinstance(s, Store | Prefetch)
        indices = (*place.own, *s.indices)
        return Store(place.buffer, indices, s.value) if isinstance(s, Store) else Prefetch(place.buffer, indices)

    return transform(rewrite_loads(body, load), step)
