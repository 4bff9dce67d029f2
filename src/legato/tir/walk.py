"""Walking, searching and rewriting loop programs. Iterative: a host function nests one View per planned tensor.

Rewrites return the same object where nothing changed. They assume what `verify` checks: every variable and buffer is
bound once, so a replacement never meets a binder of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from legato.arith.bounds import Bounds, bounds
from legato.arith.expr import Const, Expr, Var
from legato.arith.interval import Interval
from legato.arith.substitute import nodes as expr_nodes
from legato.arith.substitute import rewrite as rewrite_expr
from legato.arith.substitute import substitute as substitute_expr
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.node import transform
from legato.tir.buffer import Buffer
from legato.tir.expr import Address, Load, Size, Tag
from legato.tir.objects import Object, Open, Resize
from legato.tir.stmt import Alloc, Block, For, Func, HostOp, Invoke, Launch, Let, Prefetch, Stmt, Store, View

__all__ = ["BINDERS", "bound_buffers", "bound_vars", "buffers_read", "buffers_used", "buffers_written", "expressions",
           "flat", "has_load", "loads", "loop_limits", "loop_ranges", "loops", "map_exprs", "replace_buffer",
           "rewrite_loads", "rewrite_loads_in", "statements", "substitute", "transform", "vars_used"]  # fmt: skip

CALLS = (Launch, Invoke, HostOp)
BINDERS = (Alloc, View, Object, Open, Resize)  # of a buffer, while their body runs


def statements(root: Stmt | Func) -> Iterator[Stmt]:
    """Every statement under `root`, itself included, in program order (outer before inner)."""
    stack = [root.body if isinstance(root, Func) else root]
    while stack:
        stmt = stack.pop()
        yield stmt
        stack += reversed(stmt.children())


def expressions(root: Stmt | Func) -> Iterator[Expr]:
    """Every distinct scalar node under `root`, operands before users; buffer shapes are not included."""
    return expr_nodes(*(e for s in statements(root) for e in s.exprs()))


def loops(root: Stmt | Func) -> Iterator[For]:
    """The loops under `root` in program order."""
    return (s for s in statements(root) if isinstance(s, For))


def loads(root: Stmt | Func | Expr) -> Iterator[Load]:
    """The distinct Loads under `root`, a Load inside another's subscripts first."""
    found = expr_nodes(root) if isinstance(root, Expr) else expressions(root)
    return (e for e in found if isinstance(e, Load))


def buffers_read(root: Stmt | Func) -> tuple[Buffer, ...]:
    """Buffers that `root` may read: loaded from, fetched ahead, handed on as objects or given to a call. Views are
    told apart from bases."""
    found = dict.fromkeys(b for s in statements(root) if isinstance(s, CALLS) for b in s.args if isinstance(b, Buffer))
    found |= dict.fromkeys(s.buffer for s in statements(root) if isinstance(s, Prefetch))
    found |= dict.fromkeys(e.buffer for e in expressions(root) if isinstance(e, Load | Address))
    return tuple(found)


def buffers_written(root: Stmt | Func) -> tuple[Buffer, ...]:
    """Buffers that `root` may write: those stored to and those a call gets. A View is told apart from its base."""
    return tuple(dict.fromkeys(b for s in statements(root) for b in _written_by(s)))


def _written_by(stmt: Stmt) -> tuple[Buffer, ...]:
    if isinstance(stmt, Store):
        return (stmt.buffer,)
    return tuple(b for b in stmt.args if isinstance(b, Buffer)) if isinstance(stmt, CALLS) else ()


def buffers_used(root: Stmt | Func) -> tuple[Buffer, ...]:
    """Buffers that `root` reads, writes or takes a view of."""
    bases = [s.base for s in statements(root) if isinstance(s, View)]
    return tuple(dict.fromkeys([*buffers_read(root), *buffers_written(root), *bases]))


def bound_vars(root: Stmt | Func) -> tuple[Var, ...]:
    """Variables bound under `root` by For and Let, in program order."""
    return tuple(s.var for s in statements(root) if isinstance(s, For | Let))


def bound_buffers(root: Stmt | Func) -> tuple[Buffer, ...]:
    """Buffers bound under `root` by Alloc, View, Object, Open and Resize, in program order."""
    return tuple(s.buffer for s in statements(root) if isinstance(s, BINDERS))


def vars_used(root: Stmt | Func) -> tuple[Var, ...]:
    """Variables that occur in expressions under `root`, or in the shapes of the buffers bound there."""
    found = dict.fromkeys(e for e in expressions(root) if isinstance(e, Var))
    found |= dict.fromkeys(variables(*(d for b in bound_buffers(root) for d in b.shape)))
    return tuple(found)


def has_load(e: Expr) -> bool:
    """True if the value of `e` depends on memory, so that a Store may change it."""
    return any(isinstance(node, Load | Size | Tag) for node in expr_nodes(e))


def loop_ranges(root: Stmt | Func, outer: Mapping[Var, Interval] | None = None) -> dict[Var, Interval]:
    """The values of every variable bound under `root` (loops and index Lets), on top of `outer`."""
    found = dict(outer or {})
    for s in statements(root):
        if isinstance(s, For):
            _, most = Bounds(found).of(s.extent)
            found[s.var] = Interval(0, None if most is None else most - 1)
        elif isinstance(s, Let) and s.var.dtype == dt.index:
            found[s.var] = bounds(s.value, found)
    return found


def loop_limits(root: Stmt | Func) -> dict[Var, Expr]:
    """The extents of the loops under `root` that are not literals and do not depend on memory."""
    return {s.var: s.extent for s in loops(root) if not isinstance(s.extent, Const) and not has_load(s.extent)}


def map_exprs(stmt: Stmt, f: Callable[[Expr], Expr]) -> Stmt:
    """`stmt` with `f` applied to every operand expression (whole operands, not their parts)."""

    def step(node: Stmt) -> Stmt | None:
        old = node.exprs()
        new = tuple([f(e) for e in old])
        return None if new == old else node.with_exprs(new)

    return transform(stmt, step)


def substitute(stmt: Stmt, mapping: Mapping[Var, Expr]) -> Stmt:
    """`stmt` with the free variables of `mapping` replaced, in the shapes of buffers bound inside as well."""
    if not mapping:
        return stmt
    moved: dict[Buffer, Buffer] = {}
    for buffer in bound_buffers(stmt):
        shape = tuple(substitute_expr(d, mapping) for d in buffer.shape)
        if shape != buffer.shape:
            moved[buffer] = copy_buffer(buffer, shape=shape)
    return map_exprs(replace_buffer(stmt, moved), lambda e: substitute_expr(e, mapping))


def copy_buffer(buffer: Buffer, *, name: str | None = None, shape: tuple[Expr, ...] | None = None) -> Buffer:
    """A new plain buffer like `buffer`, with another name or shape."""
    new_shape = buffer.shape if shape is None else shape
    return Buffer(name or buffer.name, new_shape, buffer.dtype, buffer.layout, buffer.scope)


def rewrite_loads_in(e: Expr, f: Callable[[Load], Expr | None]) -> Expr:
    """`e` with every Load replaced by `f(load)` (None keeps it); a Load's subscripts are rewritten before it."""
    return rewrite_expr(e, lambda node: f(node) if isinstance(node, Load) else None)


def rewrite_loads(stmt: Stmt, f: Callable[[Load], Expr | None]) -> Stmt:
    """`stmt` with every Load replaced by `f(load)` (None keeps it)."""
    return map_exprs(stmt, lambda e: rewrite_loads_in(e, f))


def replace_buffer(stmt: Stmt, mapping: Mapping[Buffer, Buffer]) -> Stmt:
    """`stmt` with buffers replaced wherever they occur: Loads, Addresses, Stores, binders, call arguments.

    A replacement has the rank and dtype of the original.
    """
    if not mapping:
        return stmt

    def used(old: Expr) -> Expr | None:
        if not isinstance(old, Load | Address) or old.buffer not in mapping:
            return None
        new = mapping[old.buffer]
        return Load(new, old.indices) if isinstance(old, Load) else Address(new)

    rewritten = map_exprs(stmt, lambda e: rewrite_expr(e, used))
    return transform(rewritten, lambda node: _with_buffers(node, mapping))


def _with_buffers(node: Stmt, mapping: Mapping[Buffer, Buffer]) -> Stmt | None:
    if isinstance(node, Store | Prefetch | Alloc | Object | Open | Resize) and node.buffer in mapping:
        return replace(node, buffer=mapping[node.buffer])
    if isinstance(node, View) and (node.buffer in mapping or node.base in mapping):
        return replace(node, buffer=mapping.get(node.buffer, node.buffer), base=mapping.get(node.base, node.base))
    if isinstance(node, CALLS) and any(a in mapping for a in node.args if isinstance(a, Buffer)):
        return replace(node, args=tuple(mapping.get(a, a) if isinstance(a, Buffer) else a for a in node.args))
    return None


def flat(s: Block) -> list[Stmt]:
    """The statements of a block and of the blocks in it."""
    out: list[Stmt] = []
    todo: list[Stmt] = [s]
    while todo:
        stmt = todo.pop()
        if isinstance(stmt, Block):
            todo += reversed(stmt.stmts)
        else:
            out.append(stmt)
    return out
