"""Statements of a script, before they are read: what they bind, and whether they return."""

from __future__ import annotations

import ast
from collections.abc import Sequence

__all__ = ["assigned", "given", "returns"]


def assigned(stmts: Sequence[ast.stmt]) -> list[str]:
    """The names that statements assign, in their order."""
    found = (n for s in stmts for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return list(dict.fromkeys(n.id for n in found))


def given(bodies: Sequence[Sequence[ast.stmt]]) -> list[str]:
    """The names that a choice without a return gives values to."""
    if len(bodies) > 1:
        found = [assigned(body) for body in bodies]
        return [n for n in found[0] if all(n in other for other in found[1:])]
    match bodies[0][-1] if bodies else None:
        case ast.If(body=body, orelse=orelse):
            return given([body, orelse])
        case ast.Match(cases=cases):
            return given([c.body for c in cases])
        case None:
            return []
        case last:
            return assigned([last])


def returns(stmts: Sequence[ast.stmt]) -> bool:
    """Whether statements end in a return, whichever way a choice goes."""
    last = stmts[-1] if stmts else None
    if isinstance(last, ast.If):
        return returns(last.body) and returns(last.orelse)
    if isinstance(last, ast.Match):
        return all(returns(case.body) for case in last.cases)
    return isinstance(last, ast.Return)
