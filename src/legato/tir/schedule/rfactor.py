"""Several partial results of a reduction."""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Var, binary
from legato.arith.substitute import nodes, rewrite
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, identity
from legato.tir.schedule._edit import check_scope, is_guard, loop_path, loop_var, replaced
from legato.tir.schedule._update import Update, as_update
from legato.tir.stmt import Alloc, For, Func, If, LoopKind, Stmt, Store, block

__all__ = ["rfactor"]


def rfactor(func: Func, var: Var, scope: Scope = Scope.LOCAL) -> tuple[Func, Buffer, Var, Var]:
    """Gives each iteration of the reduction loop `var` an accumulator of its own, and combines them afterwards.

        for ro in n: for ri in 16:             alloc p[16]
          x[i] = x[i] + f(ro*16 + ri)   ->     for j in 16: p[j] = 0
                                               for ro in n: for ri in 16: p[ri] = p[ri] + f(ro*16 + ri)
                                               for k in 16: x[i] = x[i] + p[k]

    The loops around the update that the place does not depend on are the reduction; they must be perfectly nested. It
    rounds floats in another order. Returns (func, p, j, k); the update keeps its loops, and `ri` may now be a vector.
    """
    path = loop_path(func, var)
    top, update = _reduction(path, var)
    loop = path[-1]
    assert isinstance(loop, For)
    outside = {f.var for f in path[top:] if isinstance(f, For)}
    if any(n in outside for n in nodes(loop.extent)):
        raise ScheduleError(f"rfactor: the extent of {var.name}, {loop.extent}, depends on another loop")
    dtype, place = update.store.buffer.dtype, update.store.indices
    parts = Buffer(f"{update.store.buffer.name}_parts", (loop.extent,), dtype, scope=scope)
    start, end = loop_var(var.name), loop_var(var.name)
    check_scope(parts, "rfactor")
    init = For(start, loop.extent, Store(parts, (start,), identity(update.op, dtype)))
    total, mine = Load(update.store.buffer, place), Load(parts, (var,))
    partial = Store(parts, (var,), rewrite(update.store.value, lambda e: mine if e is total else None))
    final = Store(update.store.buffer, place, binary(update.op, total, Load(parts, (end,))))
    nest = _with_leaf(path[top], partial)
    new = Alloc(parts, block(init, nest, For(end, loop.extent, final)))
    return replaced(func, path[: top + 1], new), parts, start, end


def _reduction(path: Sequence[Stmt], var: Var) -> tuple[int, Update]:
    """Where on `path` the reduction's outermost loop is, and its update."""
    leaf = path[-1]
    while isinstance(leaf, For) or is_guard(leaf):
        leaf = leaf.children()[0]
    update = as_update(leaf) if isinstance(leaf, Store) else None
    if update is None:
        raise ScheduleError(f"rfactor: {var.name} does not end in a single update x = x op e")
    used = {n for i in update.store.indices for n in nodes(i) if isinstance(n, Var)}
    inner: Stmt = path[-1]
    while not isinstance(inner, Store):
        if isinstance(inner, For) and inner.var in used:
            message = f"rfactor: {update.store.buffer.name} is updated at a place that depends on {inner.var.name}"
            raise ScheduleError(message, hint="reorder that loop to the outside")
        inner = inner.children()[0]
    top = len(path) - 1
    while top > 0:
        s = path[top - 1]
        if not ((isinstance(s, For) and s.var not in used and s.kind is LoopKind.SERIAL) or is_guard(s)):
            break
        top -= 1
    while not isinstance(path[top], For):
        top += 1
    return top, update


def _with_leaf(root: Stmt, leaf: Store) -> Stmt:
    """A perfect nest with another statement inside."""
    heads: list[Stmt] = []
    s = root
    while isinstance(s, For | If):
        heads.append(s)
        s = s.children()[0]
    new: Stmt = leaf
    for head in reversed(heads):
        new = head.with_children((new,))
    return new
