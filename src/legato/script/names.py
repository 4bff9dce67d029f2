"""Which names statements read, write, and need later; whether they leave the block that they are in."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from types import UnionType

from legato.base.dataclass import dataclass

__all__ = ["Later", "jumps", "live_at_loop", "live_before", "reads", "returns", "stores", "writes"]

Names = frozenset[str]
NONE: Names = frozenset()


@dataclass(frozen=True, slots=True)
class Later:
    """The names that are needed where a block goes on: behind it, at `break` and at `continue`."""

    end: Names = NONE
    broken: Names = NONE
    continued: Names = NONE


def reads(*nodes: ast.AST | None) -> Names:
    """The names that are read in expressions or statements, those in inner functions included."""
    walked = (n for node in nodes if node is not None for n in ast.walk(node))
    return frozenset(n.id for n in walked if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def stores(target: ast.AST) -> Names:
    """The names that an assignment to `target` sets."""
    return frozenset(n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def writes(block: Iterable[ast.stmt]) -> Names:
    """The names that statements set, not those inside of inner functions and comprehensions."""
    found: set[str] = set()
    todo: list[ast.stmt] = list(block)
    while todo:
        match todo.pop():
            case ast.Assign(targets=targets):
                found |= {n for t in targets for n in stores(t)}
            case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
                found |= stores(target)
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.If() | ast.While() as node:
                todo += [*node.body, *node.orelse]
            case ast.For() as node:
                found |= stores(node.target)
                todo += node.body
    return frozenset(found)


def jumps(block: Iterable[ast.stmt]) -> bool:
    """Whether statements may leave their block: by return, or by break and continue of a loop around them."""
    return any(
        isinstance(s, ast.Return | ast.Break | ast.Continue)
        or (isinstance(s, ast.If) and jumps([*s.body, *s.orelse]))
        or (isinstance(s, ast.While | ast.For) and returns(s.body))
        for s in block
    )


def returns(block: Iterable[ast.stmt]) -> bool:
    """Whether statements may leave the function."""
    return any(
        isinstance(s, ast.Return) or (isinstance(s, ast.If | ast.While | ast.For) and returns([*s.body, *s.orelse]))
        for s in block
    )


def breaks(block: Iterable[ast.stmt], kinds: type[ast.stmt] | UnionType = ast.Break) -> bool:
    """Whether statements may leave the loop around them; `kinds`: or, also, this turn of it, by continue."""
    return any(isinstance(s, kinds) or (isinstance(s, ast.If) and breaks([*s.body, *s.orelse], kinds)) for s in block)


def falls(block: Sequence[ast.stmt]) -> bool:
    """Whether what follows the statements may be reached through them."""
    for s in block:
        if isinstance(s, ast.Return | ast.Break | ast.Continue):
            return False
        if isinstance(s, ast.If) and not falls(s.body) and not falls(s.orelse):
            return False
    return True


def live_before(block: Sequence[ast.stmt], later: Later) -> Names:
    """The names that are needed where `block` begins."""
    live = later.end
    for s in reversed(block):
        live = _before(s, live, later)
    return live


def _before(s: ast.stmt, live: Names, later: Later) -> Names:
    match s:
        case ast.Return(value=value):
            return reads(value)
        case ast.Break():
            return later.broken
        case ast.Continue():
            return later.continued
        case ast.Assign(targets=targets, value=value):
            return (live - {n for t in targets for n in stores(t)}) | reads(value)
        case ast.AnnAssign(target=target, value=value):
            return (live - stores(target)) | reads(value)
        case ast.AugAssign(target=target, value=value):
            return live | stores(target) | reads(value)
        case ast.FunctionDef(name=name):
            return (live | reads(*s.body, s.args)) - {name}
        case ast.If(test=test, body=body, orelse=orelse):
            inner = Later(live, later.broken, later.continued)
            return reads(test) | live_before(body, inner) | live_before(orelse, inner)
        case ast.While(test=test):
            return live_at_loop(s, live) | reads(test)
        case ast.For(iter=iterated):
            return live_at_loop(s, live) | reads(iterated)
        case _:
            return live | reads(s)


def live_at_loop(loop: ast.While | ast.For, after: Names) -> Names:
    """The names that are needed where a turn of `loop` may begin."""
    head: Names = NONE
    while True:
        at_end = head | after
        body = live_before(loop.body, Later(at_end, after, at_end))
        new = after | (body | reads(loop.test) if isinstance(loop, ast.While) else body - stores(loop.target))
        if new == head:
            return head
        head = new
