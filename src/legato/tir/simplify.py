"""Simplifies a loop program: same stores in the same order, less to do and to read.

    for i in 0..1 { s(i) }                    ->  s(0)
    let m = n; s(m)                           ->  s(n)               also for literals, and for what is never used
    if (i*4 + j)//4 < n { s } in i in 0..n    ->  s                  conditions decided by loop ranges
    if c { if c { s } else { t } }            ->  if c { s }         … and by the conditions around
    for i in 0..n { }, if c { }, alloc t      ->                     what does nothing, or runs never

Every index and condition is simplified with the ranges of the loops around it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from legato.arith.compare import negation
from legato.arith.expr import Binary, Const, Expr, Op, Var, const
from legato.arith.interval import Interval
from legato.arith.simplify import Simplifier
from legato.arith.substitute import replace as replace_parts
from legato.arith.substitute import substitute as substitute_expr
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.tir.buffer import Buffer
from legato.tir.objects import Open
from legato.tir.stmt import Alloc, Block, Check, For, Func, If, Let, LoopKind, Stmt, View, block
from legato.tir.walk import (
    BINDERS,
    buffers_used,
    copy_buffer,
    has_load,
    loop_limits,
    loop_ranges,
    loops,
    replace_buffer,
    statements,
    substitute,
    transform,
    vars_used,
)

__all__ = ["simplify"]

_NOTHING = Block(())
_UNNEEDED = (Alloc, View, Open)  # without use of their buffer; an Object is also there to be released
_TRUE, _FALSE = const(True, dt.bool_), const(False, dt.bool_)


def simplify(func: Func) -> Func:
    """`func` simplified; the same object where nothing changed."""
    body, old = func.body, None
    while body is not old:
        old = body
        body = _decide(_inline(body))
    return func.with_body(body)


# Binders whose variable is known


def _inline(body: Stmt) -> Stmt:
    """`body` without the loops that run once and the Lets that only rename, and without what is never used."""
    threads = sum(s.kind is LoopKind.PARALLEL for s in loops(body))
    used, buffers = set(vars_used(body)), set(buffers_used(body))
    known: dict[Var, Expr] = {}
    dead: set[Buffer] = set()
    for s in statements(body):
        if isinstance(s, For) and s.extent is const(1) and (s.kind is not LoopKind.PARALLEL or threads == 1):
            known[s.var] = const(0)
        elif isinstance(s, Let) and (s.var not in used or isinstance(s.value, Var | Const)):
            known[s.var] = substitute_expr(s.value, known)
        elif isinstance(s, _UNNEEDED) and s.buffer not in buffers:
            dead.add(s.buffer)

    def bare(s: Stmt) -> Stmt | None:
        if isinstance(s, For | Let):
            return s.body if s.var in known else None
        return s.body if isinstance(s, _UNNEEDED) and s.buffer in dead else None

    return substitute(transform(body, bare), known) if known or dead else body


# Conditions and ranges


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is known at a place: how to simplify there, and conditions that hold or do not."""

    simplify: Simplifier
    ranges: Mapping[Var, Interval]
    facts: Mapping[Expr, Expr]

    def __call__(self, e: Expr) -> Expr:
        e = self.simplify(e)
        return self.simplify(replace_parts(e, self.facts)) if self.facts else e

    def assuming(self, cond: Expr) -> _Scope:
        """This scope where `cond`, which is simplified, holds as well."""
        if has_load(cond):
            return self
        facts, ranges = dict(self.facts), dict(self.ranges)
        todo = [cond]
        while todo:
            c = todo.pop()
            if isinstance(c, Binary) and c.op is Op.AND:
                todo += (c.a, c.b)
                continue
            facts[c], facts[self.simplify(negation(c))] = _TRUE, _FALSE
            _narrow(ranges, c)
        if ranges == self.ranges:
            return _Scope(self.simplify, ranges, facts)
        return _Scope(Simplifier(ranges, self.simplify.limits), ranges, facts)


def _narrow(ranges: dict[Var, Interval], c: Expr) -> None:
    """Cuts the range of a variable that `c` compares with a literal."""
    if not isinstance(c, Binary) or c.a.dtype != dt.index:
        return
    a, b = c.a, c.b
    if isinstance(a, Var) and isinstance(b, Const):
        bound = int(b.value)
        cut = {Op.LT: Interval(None, bound - 1), Op.LE: Interval(None, bound), Op.EQ: Interval(bound, bound)}.get(c.op)
        var = a
    elif isinstance(b, Var) and isinstance(a, Const):
        bound = int(a.value)
        cut = {Op.LT: Interval(bound + 1, None), Op.LE: Interval(bound, None), Op.EQ: Interval(bound, bound)}.get(c.op)
        var = b
    else:
        return
    if cut is not None:
        ranges[var] = ranges.get(var, Interval()).intersect(cut)


def _decide(body: Stmt) -> Stmt:
    """`body` with operands simplified, decided branches taken, and nothing left that does nothing."""
    ranges = loop_ranges(body)
    top = _Scope(Simplifier(ranges, loop_limits(body)), ranges, {})
    results: list[Stmt] = []
    todo: list[tuple[Stmt, _Scope, bool]] = [(body, top, False)]
    moved: dict[Buffer, Buffer] = {}
    while todo:
        s, scope, done = todo.pop()
        if done:
            count = len(s.children())
            kids = tuple(results[len(results) - count :])
            del results[len(results) - count :]
            results.append(_tidied(s if kids == s.children() else s.with_children(kids)))
            continue
        s = _with_simple_operands(s, scope, moved)
        match s:
            case If(cond, then, orelse) if isinstance(cond, Const):
                todo.append((then if cond.value else orelse or _NOTHING, scope, False))
            case If(cond, then, orelse):
                todo += [(s, scope, True), (then, scope.assuming(cond), False)]
                if orelse is not None:
                    unless = scope.assuming(scope.simplify(negation(cond)))
                    todo.insert(len(todo) - 1, (orelse, unless, False))
            case For() if isinstance(s.extent, Const) and s.extent.value <= 0:
                results.append(_NOTHING)
            case _:
                todo.append((s, scope, True))
                todo += [(child, scope, False) for child in reversed(s.children())]
    return replace_buffer(results[0], moved)


def _with_simple_operands(s: Stmt, scope: _Scope, moved: dict[Buffer, Buffer]) -> Stmt:
    old = s.exprs()
    new = tuple([scope(e) for e in old])
    if isinstance(s, BINDERS):
        shape = tuple([scope(d) for d in s.buffer.shape])
        if shape != s.buffer.shape:
            moved[s.buffer] = copy_buffer(s.buffer, shape=shape)
    return s if new == old else s.with_exprs(new)


def _tidied(s: Stmt) -> Stmt:
    """`s`, whose parts are simplified, without what does nothing."""
    match s:
        case Block(stmts):
            return _flat(s, stmts)
        case If(cond, then, orelse):
            return _tidied_if(s, cond, then, orelse)
        case For(_, _, inner) | Let(_, _, inner) | Alloc(_, inner) | View(_, _, _, inner) if _is_empty(inner):
            return _NOTHING
        case Check(cond, _, _) if cond is _TRUE:
            return _NOTHING
        case _:
            return s


def _flat(s: Block, stmts: tuple[Stmt, ...]) -> Stmt:
    if len(stmts) != 1 and not any(isinstance(c, Block) for c in stmts):
        return s
    return block(*stmts)


def _tidied_if(s: If, cond: Expr, then: Stmt, orelse: Stmt | None) -> Stmt:
    if orelse is not None and _is_empty(orelse):
        orelse = None
    if not _is_empty(then):
        return s if orelse is s.orelse else replace(s, orelse=orelse)
    return _NOTHING if orelse is None else If(negation(cond), orelse)


def _is_empty(s: Stmt) -> bool:
    return isinstance(s, Block) and not s.stmts
