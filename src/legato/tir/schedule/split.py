"""Splitting a loop into tiles."""

from __future__ import annotations

from typing import NamedTuple

from legato.arith.expr import Const, Expr, Var, const, floordiv, lt
from legato.arith.prove import prove_equal
from legato.arith.simplify import simplify
from legato.base.errors import ScheduleError
from legato.tir.schedule._edit import (
    Names,
    check_two_loops,
    copied,
    literal,
    loop_path,
    loop_var,
    normal,
    renamed,
    replaced,
    understood,
)
from legato.tir.stmt import For, Func, If, LoopKind, Stmt, block

__all__ = ["Part", "split", "split_balanced", "split_peeled"]


class Part(NamedTuple):
    """One of the nests that a loop became: its tile loop, the loop inside a tile, the names of what is in it."""

    outer: Var
    inner: Var
    names: Names


def split(func: Func, var: Var, factor: int) -> tuple[Func, Var, Var]:
    """Tiles of `factor` iterations; a guard cuts the last tile where the extent is not divisible.

        for i in n: s(i)   ->   for io in (n + 3) // 4: for ii in 4: if io*4 + ii < n: s(io*4 + ii)

    The outer loop keeps the kind PARALLEL, the inner one VECTOR, both UNROLL. Returns (func, io, ii).
    """
    path, loop, n = _splittable(func, var, factor, "split")
    whole = _divides(n, factor)
    tiles = simplify(n // factor) if whole else floordiv(normal(n + (factor - 1)), const(factor))
    outer, inner = loop_var(f"{var.name}o"), loop_var(f"{var.name}i")
    body = renamed(loop.body, {var: outer * factor + inner})
    if not whole:
        body = If(lt(outer * factor + inner, n), body)
    return replaced(func, path, _tiled(loop, outer, tiles, inner, factor, body)), outer, inner


def split_peeled(func: Func, var: Var, factor: int) -> tuple[Func, Var, Var, Names | None]:
    """Full tiles of `factor` iterations, then a loop over the rest.

        for i in n: s(i)   ->   for io in n // 4: for ii in 4: s(io*4 + ii)
                                for i' in n % 4: s(n // 4 * 4 + i')

    Returns (func, io, ii, names): `names[i]` is the loop over the rest; None if nothing is left.
    """
    path, loop, n = _splittable(func, var, factor, "split_peeled")
    whole = _divides(n, factor)
    tiles = simplify(n // factor) if whole else n // factor
    outer, inner = loop_var(f"{var.name}o"), loop_var(f"{var.name}i")
    main = _tiled(loop, outer, tiles, inner, factor, renamed(loop.body, {var: outer * factor + inner}))
    if whole:
        return replaced(func, path, main), outer, inner, None
    check_two_loops(loop, "split_peeled")
    rest = n % factor
    again = loop_var(var.name)
    body, names = copied(loop.body, {var: tiles * factor + again})
    tail = For(again, rest, body, loop.kind)
    names = Names({**names.vars, var: again}, names.buffers)
    return replaced(func, path, block(main, tail)), outer, inner, names


def split_balanced(func: Func, var: Var, max_factor: int) -> tuple[Func, list[Part]]:
    """As few tiles of at most `max_factor` iterations as possible, of nearly equal size: at most two literal sizes.

        for i in 16: s(i)   ->   for io in 1: for ii in 6: s(io*6 + ii)          (for max_factor = 6)
                                 for io' in 2: for ii' in 5: s(io'*5 + ii' + 6)

    For literal extents. Returns (func, parts): what is inside the first nest keeps its names, the second is a copy with
    `part.names[v]` for v.
    """
    path, loop, _ = _splittable(func, var, max_factor, "split_balanced")
    n = literal(loop, "split_balanced")
    if n == 0:
        raise ScheduleError(f"split_balanced: {var.name} never runs")
    tiles = -(-n // max_factor)
    small, big_tiles = n // tiles, n % tiles
    if big_tiles:
        check_two_loops(loop, "split_balanced")
    sizes = [(big_tiles, small + 1), (tiles - big_tiles, small)]
    stmts: list[Stmt] = []
    parts: list[Part] = []
    start = 0
    for count, size in sizes:
        if count:
            stmt, part = _part(loop, count, size, start, bool(parts))
            stmts.append(stmt)
            parts.append(part)
            start += count * size
    return replaced(func, path, block(*stmts)), parts


def _part(loop: For, count: int, size: int, start: int, copy: bool) -> tuple[Stmt, Part]:
    outer = loop_var(f"{loop.var.name}o")
    inner = loop_var(f"{loop.var.name}i")
    at = {loop.var: outer * size + inner + start}
    body, names = copied(loop.body, at) if copy else (renamed(loop.body, at), Names())
    return _tiled(loop, outer, const(count), inner, size, body), Part(outer, inner, names)


def _splittable(func: Func, var: Var, factor: int, primitive: str) -> tuple[tuple[Stmt, ...], For, Expr]:
    if factor < 1:
        raise ScheduleError(f"{primitive}: a factor of {factor}, wanted at least 1")
    path = loop_path(func, var)
    loop = path[-1]
    assert isinstance(loop, For)
    understood(loop, primitive)
    return path, loop, loop.extent


def _tiled(loop: For, outer: Var, tiles: Expr, inner: Var, factor: int, body: Stmt) -> Stmt:
    outer_kind = LoopKind.SERIAL if loop.kind is LoopKind.VECTOR else loop.kind
    inner_kind = LoopKind.SERIAL if loop.kind is LoopKind.PARALLEL else loop.kind
    return For(outer, tiles, For(inner, const(factor), body, inner_kind), outer_kind)


def _divides(n: Expr, factor: int) -> bool:
    return int(n.value) % factor == 0 if isinstance(n, Const) else prove_equal(n % factor, const(0))
