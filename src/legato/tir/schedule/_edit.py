"""What every primitive needs to find its place in a program and to put something else there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from legato.arith.bounds import Bounds
from legato.arith.expr import Const, Expr, Var
from legato.arith.interval import Interval
from legato.arith.linear import build, gather
from legato.arith.substitute import rewrite, variables
from legato.base import dtype as dt
from legato.base.errors import ScheduleError
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, Barrier, Block, For, Func, If, Let, LoopKind, Stmt, Store
from legato.tir.walk import buffers_read, buffers_written, copy_buffer, has_load, statements, transform

__all__ = ["Names", "alloc_path", "body_path", "check_scope", "check_two_loops", "copied", "extents", "is_guard",
           "limits", "literal", "loop_path", "loop_var", "nest", "normal", "ranges", "renamed", "replaced",
           "understood"]  # fmt: skip

T = TypeVar("T", Var, Buffer)


class Names:
    """What the variables and buffers of a program part are called in a copy of it: `names[var]`, `names[buffer]`.

    Whatever was not renamed is itself.
    """

    __slots__ = ("buffers", "vars")

    def __init__(self, vars: Mapping[Var, Var] | None = None, buffers: Mapping[Buffer, Buffer] | None = None) -> None:
        self.vars: Mapping[Var, Var] = MappingProxyType(dict(vars or {}))
        self.buffers: Mapping[Buffer, Buffer] = MappingProxyType(dict(buffers or {}))

    def __getitem__(self, key: T) -> T:
        if isinstance(key, Var):
            return self.vars.get(key, key)
        return self.buffers.get(key, key)


def loop_path(func: Func, var: Var) -> tuple[Stmt, ...]:
    """The statements from the body of `func` down to the loop over `var`, both included."""
    path = _path(func.body, lambda s: isinstance(s, For) and s.var is var)
    if path is None:
        names = ", ".join(s.var.name for s in statements(func) if isinstance(s, For))
        raise ScheduleError(f"{func.name} has no loop {var.name}", details=[f"its loops: {names or 'none'}"])
    return path


def body_path(func: Func, var: Var) -> tuple[Stmt, ...]:
    """Like `loop_path`, and on through the Lets directly inside the loop: where its body begins."""
    path = loop_path(func, var)
    body = path[-1].children()[0]
    while isinstance(body, Let):
        path, body = (*path, body), body.body
    return path


def alloc_path(func: Func, buffer: Buffer) -> tuple[Stmt, ...]:
    """The statements from the body of `func` down to the Alloc of `buffer`, both included."""
    path = _path(func.body, lambda s: isinstance(s, Alloc) and s.buffer is buffer)
    if path is None:
        raise ScheduleError(f"{func.name} does not allocate {buffer.name}", hint="only intermediate buffers can move")
    return path


def _path(root: Stmt, wanted: Callable[[Stmt], bool]) -> tuple[Stmt, ...] | None:
    parents: dict[Stmt, Stmt | None] = {root: None}
    stack = [root]
    while stack:
        s = stack.pop()
        if wanted(s):
            path: list[Stmt] = []
            at: Stmt | None = s
            while at is not None:
                path.append(at)
                at = parents[at]
            return tuple(reversed(path))
        for child in reversed(s.children()):
            parents[child] = s
            stack.append(child)
    return None


def replaced(func: Func, path: tuple[Stmt, ...], new: Stmt) -> Func:
    """`func` with the last statement of `path` replaced by `new`."""
    old = path[-1]
    for parent in reversed(path[:-1]):
        new, old = parent.with_children(tuple(new if c is old else c for c in parent.children())), parent
    return func.with_body(new)


def understood(stmt: Stmt, primitive: str) -> None:
    """Refuses statements of host functions: their effects are not analysed."""
    for s in statements(stmt):
        if isinstance(s, Barrier):
            raise ScheduleError(
                f"{primitive}: threads wait for each other in the loop", hint="schedule loops without barriers"
            )
        if not isinstance(s, Block | For | If | Let | Alloc | Store):
            raise ScheduleError(f"{primitive}: a {type(s).__name__} cannot be moved", hint="schedule kernels only")


def loop_var(name: str) -> Var:
    """A new loop variable."""
    return Var(name, dt.index, 0)


def literal(loop: For, primitive: str) -> int:
    """The extent of a loop that must have a literal one."""
    if not isinstance(loop.extent, Const):
        raise ScheduleError(
            f"{primitive}: the extent of {loop.var.name} is {loop.extent}, wanted a literal",
            hint="split the loop first",
        )
    return int(loop.extent.value)


def check_scope(buffer: Buffer, primitive: str) -> None:
    """Refuses a register buffer whose shape is not literal."""
    if buffer.scope is Scope.REGISTER and not all(isinstance(d, Const) for d in buffer.shape):
        shape = ", ".join(str(d) for d in buffer.shape)
        raise ScheduleError(
            f"{primitive}: {buffer.name} would have the shape ({shape}), wanted a literal one in registers"
        )


def check_two_loops(loop: For, primitive: str) -> None:
    """Refuses to make two parallel loops of one whose iterations read what they store: kernels cannot order the two."""
    if loop.kind is not LoopKind.PARALLEL:
        return
    own = {s.buffer for s in statements(loop) if isinstance(s, Alloc)}
    both = [b.name for b in buffers_read(loop) if b in set(buffers_written(loop)) - own]
    if both:
        message = (
            f"{primitive}: iterations of the parallel loop {loop.var.name} read {', '.join(both)}, which they store"
        )
        raise ScheduleError(message, hint="make loops parallel last, or accumulate in a tile with cache_write")


def normal(e: Expr) -> Expr:
    """`e` (of dtype index) as a sum with like terms collected."""
    return build(*gather(e))


def is_guard(s: Stmt) -> bool:
    """True for an If without else whose condition reads no memory."""
    return isinstance(s, If) and s.orelse is None and not has_load(s.cond)


def nest(loops: Iterable[For | If | Let], body: Stmt) -> Stmt:
    """`body` inside the heads of `loops` (loops and guards, outermost first)."""
    for head in reversed(list(loops)):
        body = head.with_children((body,))
    return body


def extents(stmts: Iterable[Stmt]) -> dict[Var, Expr]:
    """The extents of the loops among `stmts`."""
    return {s.var: s.extent for s in stmts if isinstance(s, For)}


def limits(stmts: Iterable[Stmt]) -> dict[Var, Expr]:
    """The extents of the loops among `stmts` that are not literals and do not depend on memory."""
    found = extents(stmts).items()
    return {v: e for v, e in found if not isinstance(e, Const) and not has_load(e)}


def ranges(stmts: Iterable[Stmt], outer: Mapping[Var, Interval] | None = None) -> dict[Var, Interval]:
    """The values of the variables that `stmts` (outer ones first) bind, on top of `outer`."""
    found = dict(outer or {})
    for s in stmts:
        if isinstance(s, For):
            _, most = Bounds(found).of(s.extent)
            found[s.var] = Interval(0, None if most is None else max(most - 1, 0))
        elif isinstance(s, Let) and s.var.dtype == dt.index:
            found[s.var] = Interval(*Bounds(found).of(s.value))
    return found


def renamed(stmt: Stmt, vars: Mapping[Var, Expr], buffers: Mapping[Buffer, Buffer] | None = None) -> Stmt:
    """`stmt` with variables and buffers replaced: in expressions, at binders, in shapes of buffers bound inside.

    A variable that is bound inside must be replaced by a variable. One pass over the program.
    """
    moved = dict(buffers or {})
    for s in statements(stmt):
        if isinstance(s, Alloc) and s.buffer not in moved and any(v in vars for v in variables(*s.buffer.shape)):
            moved[s.buffer] = copy_buffer(s.buffer, shape=tuple(_substituted(d, vars) for d in s.buffer.shape))

    def expr(node: Expr) -> Expr | None:
        if isinstance(node, Var):
            return vars.get(node)
        if isinstance(node, Load) and node.buffer in moved:
            return Load(moved[node.buffer], node.indices)
        return None

    def step(s: Stmt) -> Stmt | None:
        old = s.exprs()
        new = tuple([rewrite(e, expr) for e in old])
        out = s if new == old else s.with_exprs(new)
        if isinstance(out, Store | Alloc) and out.buffer in moved:
            return replace(out, buffer=moved[out.buffer])
        if isinstance(out, For | Let) and out.var in vars:
            var = vars[out.var]
            assert isinstance(var, Var)
            return replace(out, var=var)
        return out

    return transform(stmt, step)


def _substituted(e: Expr, vars: Mapping[Var, Expr]) -> Expr:
    return rewrite(e, lambda node: vars.get(node) if isinstance(node, Var) else None)


def copied(stmt: Stmt, vars: Mapping[Var, Expr] | None = None) -> tuple[Stmt, Names]:
    """`stmt` with new variables and buffers at every binder, and what they are called now; `vars` are replaced too."""
    new_vars = {s.var: Var(s.var.name, s.var.dtype, s.var.lo, s.var.hi) for s in statements(stmt)
                if isinstance(s, For | Let)}  # fmt: skip
    mapping: dict[Var, Expr] = {**(vars or {}), **new_vars}
    new_buffers = {s.buffer: copy_buffer(s.buffer, shape=tuple(_substituted(d, mapping) for d in s.buffer.shape))
                   for s in statements(stmt) if isinstance(s, Alloc)}  # fmt: skip
    return renamed(stmt, mapping, new_buffers), Names(new_vars, new_buffers)
