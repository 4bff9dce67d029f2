"""Which functions call which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from legato.base.graph import components
from legato.base.node import transform
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Expr, GlobalVar
from legato.ir.module import Module

__all__ = ["broken", "callees", "reachable_from", "reopened", "values", "with_open_calls"]

Calls = Mapping[GlobalVar, Iterable[GlobalVar]]


def callees(mod: Module) -> dict[GlobalVar, list[GlobalVar]]:
    """The functions that each function calls, once for every node that does."""
    functions = dict(mod.graph_functions())
    found: dict[GlobalVar, list[GlobalVar]] = {}
    for gv, func in functions.items():
        calls = [n.op for n in body_nodes(func) if isinstance(n, Call) and isinstance(n.op, GlobalVar)]
        found[gv] = [callee for callee in calls if callee in functions]
    return found


def values(mod: Module) -> set[GlobalVar]:
    """The functions that stand somewhere as a value, not in a call's place of the function."""
    found: set[GlobalVar] = set()
    for _, func in mod.graph_functions():
        for node in body_nodes(func):
            operands = node.args if isinstance(node, Call) else node.children()
            found.update(n for n in operands if isinstance(n, GlobalVar))
        found.update(n for n in (func.body,) if isinstance(n, GlobalVar))
    return found


def reopened(call: Call, args: Iterable[Expr]) -> Call:
    """The call on `args`, whose type is to be inferred again: that of the function has changed."""
    return replace(call, op=call.op.with_type(None), args=tuple(args), type_args=(), ty=None)


def with_open_calls(mod: Module, changed: Collection[GlobalVar]) -> Module:
    """`mod`, where the types of calls of changed functions are to be inferred again."""

    def step(node: Expr) -> Expr | None:
        return reopened(node, node.args) if isinstance(node, Call) and node.op in changed else None

    functions = dict(mod.functions)
    for gv, func in mod.graph_functions():
        body = transform(func.body, step)
        functions[gv] = func if body is func.body else replace(func, body=body, ty=None)
    return mod.with_functions(functions)


def reachable_from(roots: Iterable[GlobalVar], calls: Calls) -> set[GlobalVar]:
    """The functions that may be called from `roots`, these included."""
    todo, found = list(roots), set[GlobalVar]()
    while todo:
        gv = todo.pop()
        if gv not in found:
            found.add(gv)
            todo += calls[gv]
    return found


def broken(calls: Calls, component: list[GlobalVar]) -> tuple[list[GlobalVar], list[GlobalVar]]:
    """Functions of a component without which the others call each other on no way in a circle, and the others, callees
    first: those that call themselves, then, as long as there is a circle, that of most callers."""
    place = {gv: n for n, gv in enumerate(component)}
    found = {gv for gv in component if gv in calls[gv]}
    while True:
        inner = {gv: [c for c in calls[gv] if c in place and c not in found] for gv in component if gv not in found}
        parts = components(inner)
        circles = [c for c in parts if len(c) > 1]
        if not circles:
            return sorted(found, key=place.__getitem__), [gv for (gv,) in parts]
        for circle in circles:
            callers = Counter(c for gv in circle for c in set(inner[gv]))
            found.add(min(circle, key=lambda gv: (-callers[gv], place[gv])))
