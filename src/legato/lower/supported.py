"""What compiled code can do: everything that a program has beyond it is listed in one error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from legato.base.errors import UnsupportedError
from legato.base.node import post_order
from legato.ir.contents import body_nodes
from legato.ir.devices import ON_DEVICE
from legato.ir.expr import Call, Expr, Function, GlobalVar, If, Match
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.views import VIEWS

__all__ = ["DEFAULT_PASSES", "reachable", "require_shallow", "require_supported"]

MAX_NESTING = 100  # blocks inside each other: passes and lowering recurse on them, and on nothing else
# What a program is in when the default passes have run, and what compiled code is made of.
DEFAULT_PASSES: Final = (
    "the default passes (passes=None) take away what is none of compiled code; a loop program is called by call_tir"
)


def reachable(mod: Module, *names: str) -> Module:
    """`mod` with those functions only that functions `names` may call; CompileError if there is no such function."""
    todo, found = [mod.var(name) for name in names], set[GlobalVar]()
    while todo:
        gv = todo.pop()
        if gv in found or gv not in mod.functions:
            continue
        found.add(gv)
        func = mod.functions[gv]
        if isinstance(func, Function):
            todo += [node for node in body_nodes(func) if isinstance(node, GlobalVar)]
    return mod.with_functions({gv: f for gv, f in mod.functions.items() if gv in found})


def require_shallow(mod: Module) -> None:
    """UnsupportedError if branches, clauses or closures of `mod` nest more than MAX_NESTING deep."""
    for gv, func in mod.graph_functions():
        if not any(isinstance(node, Function | If | Match) for node in body_nodes(func)):
            continue
        branches, closures = dict[int, int](), dict[int, int]()  # of each node: how deep they nest in it
        for node in post_order([func.body]):
            kids = [id(c) for c in node.children()]
            inside = max([branches[c] for c in kids], default=0)
            branches[id(node)] = 0 if isinstance(node, Function) else inside + isinstance(node, If | Match)
            closures[id(node)] = max([closures[c] for c in kids], default=0) + isinstance(node, Function)
            if max(branches[id(node)], closures[id(node)]) > MAX_NESTING:
                raise UnsupportedError(
                    f"@{gv.name}: branches nest more than {MAX_NESTING} deep",
                    span=node.span,
                    hint="put some of them into a function of their own",
                )


def require_supported(mod: Module, faults: Iterable[tuple[GlobalVar, Expr, str]]) -> None:
    """UnsupportedError, with a line for each reason, if `mod` (typed) has what compiled code cannot do yet: `faults`,
    which are what is not in first-order form (function, node, in words), or more."""
    found = list(faults)
    for gv, func in mod.graph_functions():
        found += [(gv, node, what) for node, what in _in_function(func, mod)]
    reasons: dict[str, None] = {}
    for gv, node, what in found:
        where = f" at {node.span}" if node.span is not None else ""
        reasons[f"@{gv.name}: {what}{where}"] = None
    if reasons:
        message = "the program uses what compiled code cannot do yet"
        raise UnsupportedError(message, details=tuple(reasons), hint=DEFAULT_PASSES)


def _in_function(func: Function, mod: Module) -> Iterator[tuple[Expr, str]]:
    for node in body_nodes(func):
        what = _reason(node, mod)
        if what is not None:
            yield node, what


def _reason(node: Expr, mod: Module) -> str | None:
    """Why `node`, its operands aside, cannot be compiled though it is in first-order form; None if it can."""
    match node:
        case Call(op=GlobalVar() as callee) if not isinstance(mod.functions.get(callee), Function):
            return f"a direct call of the loop program @{callee.name}"
        case Call(op=Op() as op) if op is ON_DEVICE:
            return "on_device, which the pass plan-devices takes away"
        case Call(op=Op() as op) if op in VIEWS:
            return f"{op.name}, which lowering makes"
        case _:
            return None
