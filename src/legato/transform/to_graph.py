"""Graph form: let-bound values are written where they are used, so that patterns span bindings.

    let %a = f(%x); add(%a, %a)      =>      add(f(%x), f(%x)) with one shared node

A value that is used nowhere disappears. Functions that touch references are left as they are: their order is meaning.
A let that binds a function stays (it may be recursive).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from legato.base.node import post_order, rebuild
from legato.ir.expr import Dataflow, Expr, Function, Let, RefCreate, RefRead, RefWrite, Tuple, Var
from legato.ir.module import Module
from legato.transform.pass_ import FunctionPass

__all__ = ["ToGraph"]


@dataclass(frozen=True, slots=True)
class ToGraph(FunctionPass):
    """Module → graph form."""

    name = "to-graph"

    def function(self, func: Function, mod: Module) -> Function:
        nodes = list(post_order([func.body]))
        if any(isinstance(n, RefCreate | RefRead | RefWrite) for n in nodes):
            return func
        if not any(isinstance(n, Let | Dataflow) for n in nodes):
            return func
        body = _inlined(func.body)
        return func if body is func.body else replace(func, body=body)


def _bindings(node: Expr) -> Iterator[tuple[Var, Expr]]:
    """What `node` binds and graph form does not."""
    if isinstance(node, Let) and not isinstance(node.value, Function):
        yield node.var, node.value
    elif isinstance(node, Dataflow):
        yield from node.bindings


def _inlined(root: Expr) -> Expr:
    new: dict[int, Expr] = {}
    owner = {var: value for node in post_order([root]) for var, value in _bindings(node)}
    stack = [root]
    while stack:
        node = stack[-1]
        if id(node) in new:
            stack.pop()
            continue
        waiting = owner.get(node) if isinstance(node, Var) else None
        needed = [waiting] if waiting is not None else list(_parts(node))
        pending = [c for c in needed if id(c) not in new]
        if pending:
            stack += reversed(pending)
            continue
        stack.pop()
        new[id(node)] = new[id(waiting)] if waiting is not None else _rebuilt(node, new)
    return new[id(root)]


def _parts(node: Expr) -> tuple[Expr, ...]:
    """The children that remain in graph form."""
    if isinstance(node, Let) and not isinstance(node.value, Function):
        return (node.body,)
    return node.outputs if isinstance(node, Dataflow) else node.children()


def _rebuilt(node: Expr, new: dict[int, Expr]) -> Expr:
    if isinstance(node, Let) and not isinstance(node.value, Function):
        return new[id(node.body)]
    if isinstance(node, Dataflow):
        return Tuple(tuple(new[id(o)] for o in node.outputs), ty=node.ty, span=node.span)
    return rebuild(node, new)
