"""Computing a stage where it is used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.arith.expr import Expr, Var, const
from legato.arith.substitute import rewrite
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.schedule._dependence import accesses
from legato.tir.schedule._edit import Names, body_path, check_scope, copied, loop_var, normal, replaced
from legato.tir.schedule._region import Box, Region
from legato.tir.schedule._stage import Stage, find_stage, without_stage
from legato.tir.stmt import Alloc, For, Func, If, LoopKind, Stmt, Store, block
from legato.tir.walk import loads, loops, transform

__all__ = ["compute_at", "compute_at_each"]


def compute_at(func: Func, buffer: Buffer, var: Var, scope: Scope | None = None) -> tuple[Func, Names]:
    """Computes an intermediate buffer inside loop `var` of its only reader: just the box that an iteration reads.

        alloc t[n]                            for io in n // 4:
          for j in n: t[j] = f(j)       ->      alloc t'[4]
          for io in n // 4: for ii in 4:          for j' in 4: t'[j'] = f(io*4 + j')
            y[io*4 + ii] = t[io*4 + ii]           for ii in 4: y[io*4 + ii] = t'[ii]

    The new buffer has the size of the box and `scope` (default: as before); guards keep what is computed inside the
    old shape. Returns (func, names): `names[t]` is the new buffer, `names[j]` the new loop of the producer. Every
    subscript of the producer must be a loop over the whole dimension. Elements that several iterations read are
    computed several times.
    """
    func, names = compute_at_each(func, buffer, [var], scope)
    return func, names[0]


def compute_at_each(
    func: Func, buffer: Buffer, vars: Sequence[Var], scope: Scope | None = None
) -> tuple[Func, list[Names]]:
    """Like `compute_at` where several loops, none inside another, contain the readers: the producer is copied to each.

    Returns (func, names), one per loop.
    """
    stage = find_stage(func, buffer, "compute_at")
    paths = [body_path(func, v) for v in vars]
    for var, path in zip(vars, paths, strict=True):
        _check_place(stage, var, path)
        if all(x.buffer is not buffer for x in loads(path[-1])):
            raise ScheduleError(f"compute_at: {var.name} does not read {buffer.name}")
    _check_readers(stage, vars, paths)
    names: list[Names] = []
    body = stage.body(without_stage(stage))
    func = replaced(func, stage.path, body)
    for var in vars:
        path = body_path(func, var)
        new, renaming = _placed(stage, path, scope)
        func = replaced(func, path, new)
        names.append(renaming)
    return func, names


def _check_place(stage: Stage, var: Var, path: tuple[Stmt, ...]) -> None:
    name = stage.buffer.name
    if path[: len(stage.path)] != stage.path:
        raise ScheduleError(f"compute_at: {var.name} is not where {name} is allocated")
    if any(s in stage.producers for s in path):
        raise ScheduleError(f"compute_at: {var.name} is a loop of what computes {name}")
    kinds = {s.kind for s in path if isinstance(s, For)}
    if LoopKind.VECTOR in kinds:
        raise ScheduleError(f"compute_at: {var.name} is a vector loop or inside one")
    if LoopKind.PARALLEL in kinds and any(f.kind is LoopKind.PARALLEL for p in stage.producers for f in loops(p)):
        raise ScheduleError(f"compute_at: both {var.name} and what computes {name} are in parallel loops")


def _check_readers(stage: Stage, vars: Sequence[Var], paths: Sequence[tuple[Stmt, ...]]) -> None:
    """Refuses if the buffer is read outside the loops, or before it is computed."""
    targets = {p[-1] for p in paths}
    for path in paths:
        if any(s in targets for s in path[:-1]):
            raise ScheduleError("compute_at: one of the loops is inside another", details=[v.name for v in vars])
    last = max(stage.stmts.index(p) for p in stage.producers)
    for n, s in enumerate(stage.stmts):
        if s in stage.producers:
            continue
        if _reads_outside(s, stage.buffer, targets):
            where = ", ".join(v.name for v in vars)
            raise ScheduleError(f"compute_at: {stage.buffer.name} is also read outside {where}")
        if n < last and _reads_outside(s, stage.buffer, set()):
            raise ScheduleError(f"compute_at: {stage.buffer.name} is read before it is complete")


def _reads_outside(root: Stmt, buffer: Buffer, targets: set[Stmt]) -> bool:
    """Whether `buffer` is read under `root` but not inside one of the loops `targets`."""
    stack = [root]
    while stack:
        s = stack.pop()
        if any(x.buffer is buffer for e in s.exprs() for x in loads(e)):
            return True
        if s not in targets:
            stack += s.children()
    return False


def _placed(stage: Stage, path: tuple[Stmt, ...], scope: Scope | None) -> tuple[Stmt, Names]:
    """The last statement of `path` with the producers of its box inside."""
    old = stage.buffer
    reader = path[-1].children()[0]
    region = Region(reader, path)
    box = region.box(old, [a for a in accesses(reader) if not a.is_write])
    new = Buffer(old.name, tuple(s.size for s in box), old.dtype, old.layout, scope or old.scope)
    check_scope(new, "compute_at")
    parts: list[Stmt] = []
    vars: dict[Var, Var] = {}
    buffers: dict[Buffer, Buffer] = {}
    for p in stage.producers:
        copy, names = copied(p)
        axes = {names[v]: d for v, d in stage.axes.items() if v in names.vars}
        moved, resized = _resized(copy, old, new, box, axes, region)
        parts.append(moved)
        vars |= {v: resized.get(w, w) for v, w in names.vars.items()}
        buffers |= names.buffers
    body = Alloc(new, block(*parts, rebased(reader, old, new, box)))
    return path[-1].with_children((body,)), Names(vars, {**buffers, old: new})


def _resized(
    stmt: Stmt, old: Buffer, new: Buffer, box: Box, axes: Mapping[Var, int], region: Region
) -> tuple[Stmt, dict[Var, Var]]:
    """A producer with its loops over `axes` cut down to the box."""
    vars = {v: loop_var(v.name) for v in axes}
    values = {v: box[d].lo + w for v, d in axes.items() for w in [vars[v]]}

    def expr(node: Expr) -> Expr | None:
        if isinstance(node, Var):
            return values.get(node)
        return _load(node, old, new, box)

    def step(s: Stmt) -> Stmt:
        exprs = s.exprs()
        changed = tuple([rewrite(e, expr) for e in exprs])
        s = s if changed == exprs else s.with_exprs(changed)
        if isinstance(s, Store) and s.buffer is old:
            return Store(new, _within(s.indices, box), s.value)
        if isinstance(s, For) and s.var in vars:
            d = axes[s.var]
            cond = region.guard(box[d], vars[s.var], const(0), old.shape[d])
            return For(vars[s.var], box[d].size, s.body if cond is None else If(cond, s.body), s.kind)
        return s

    return transform(stmt, step), vars


def rebased(stmt: Stmt, old: Buffer, new: Buffer, box: Box) -> Stmt:
    """`stmt` with accesses to `old` replaced by accesses to `new`, whose element 0 is the first of the box."""

    def step(s: Stmt) -> Stmt:
        exprs = s.exprs()
        changed = tuple([rewrite(e, lambda node: _load(node, old, new, box)) for e in exprs])
        s = s if changed == exprs else s.with_exprs(changed)
        return Store(new, _within(s.indices, box), s.value) if isinstance(s, Store) and s.buffer is old else s

    return transform(stmt, step)


def _load(node: Expr, old: Buffer, new: Buffer, box: Box) -> Expr | None:
    return Load(new, _within(node.indices, box)) if isinstance(node, Load) and node.buffer is old else None


def _within(indices: tuple[Expr, ...], box: Box) -> tuple[Expr, ...]:
    return tuple([normal(i - s.lo) for i, s in zip(indices, box, strict=True)])
