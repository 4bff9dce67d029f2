"""What is decided by the ranges of the loops, decided."""

from __future__ import annotations

from legato.arith.expr import Const, Expr, Var, const
from legato.arith.simplify import Simplifier
from legato.tir.schedule._edit import extents, ranges, renamed
from legato.tir.stmt import Alloc, Block, For, Func, If, Let, Stmt, block
from legato.tir.walk import statements, transform

__all__ = ["tidy"]

_NOTHING = Block(())


def tidy(func: Func) -> Func:
    """Simplifies every index and condition; drops guards that always hold, code that never runs, loops that run once.

        for i in 1: for j in 4: if i*4 + j < 4: s(i*4 + j)   ->   for j in 4: s(j)

    Loops keep their variables.
    """
    once: dict[Var, Expr] = {s.var: const(0) for s in statements(func) if isinstance(s, For) and s.extent is const(1)}
    body = _without(func.body, once)
    loops = list(statements(body))
    symbolic = {v: e for v, e in extents(loops).items() if not isinstance(e, Const)}
    return func.with_body(_visit(body, Simplifier(ranges(loops), symbolic)))


def _without(body: Stmt, once: dict[Var, Expr]) -> Stmt:
    """`body` without the loops over `once`, whose variables are 0."""
    if not once:
        return body
    bare = transform(body, lambda s: s.body if isinstance(s, For) and s.var in once else None)
    return renamed(bare, once)


def _visit(root: Stmt, simplify: Simplifier) -> Stmt:
    def step(s: Stmt) -> Stmt:
        old = s.exprs()
        new = tuple([simplify(e) for e in old])
        s = s if new == old else s.with_exprs(new)
        match s:
            case Block(stmts) if any(isinstance(c, Block) for c in stmts):
                return block(*stmts)
            case If(Const(value=holds), then, orelse):
                return then if holds else orelse or _NOTHING
            case If(_, then, None) if _is_empty(then):
                return _NOTHING
            case For(_, extent, inner) if extent is const(0) or _is_empty(inner):
                return _NOTHING
            case Let(_, _, inner) | Alloc(_, inner) if _is_empty(inner):
                return _NOTHING
            case _:
                return s

    return transform(root, step)


def _is_empty(s: Stmt) -> bool:
    return isinstance(s, Block) and not s.stmts
