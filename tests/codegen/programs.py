"""Small loop programs for tests: short names for what they are made of."""

from __future__ import annotations

import itertools

from legato.arith.expr import Expr, ExprLike, Var, expr
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.tir.buffer import Buffer, Layout, Scope
from legato.tir.expr import Load
from legato.tir.stmt import For, LoopKind, Stmt, Store

_names = itertools.count()
KINDS = {k.name.lower(): k for k in LoopKind}


def buffer(
    name: str,
    shape: tuple[ExprLike, ...],
    dtype: DType = dt.float32,
    *,
    scope: Scope = Scope.GLOBAL,
    layout: Layout | None = None,
) -> Buffer:
    """A buffer whose extents may be ints."""
    return Buffer(name, tuple(expr(d) for d in shape), dtype, layout, scope)


def index(name: str = "i") -> Var:
    """A loop variable."""
    return Var(f"{name}{next(_names)}", dt.index, 0)


def loop(var: Var, extent: ExprLike, body: Stmt, kind: str = "serial") -> For:
    """`for var in 0..extent`, of a kind by name."""
    return For(var, expr(extent), body, KINDS[kind])


def at(source: Buffer, *indices: ExprLike) -> Load:
    """`source[indices]`."""
    return Load(source, tuple(expr(i) for i in indices))


def put(target: Buffer, indices: tuple[ExprLike, ...], value: Expr) -> Store:
    """`target[indices] = value`."""
    return Store(target, tuple(expr(i) for i in indices), value)
