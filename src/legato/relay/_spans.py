"""Passes that say where nodes are, and what functions are."""

from __future__ import annotations

from dataclasses import replace

from legato.base.node import post_order, rebuild
from legato.base.span import Span
from legato.ir.dominators import DominatorTree
from legato.ir.expr import Constructor, Expr, Function
from legato.ir.op import Op
from legato.relay._passes import FunctionPass, Pass, PassContext, PassInfo
from legato.relay._steps import of_steps
from legato.relay.module import IRModule
from legato.transform.label_ops import LabelOps as Label

__all__ = ["CapturePostDfsIndexInSpans", "LabelOps"]


def LabelOps() -> Pass:
    """Functions get an attribute "hash", of their structure, and the attributes of their calls that name layouts.

    Functions that hold values have none.
    """
    return of_steps("LabelOps", 1, (Label(),))


def CapturePostDfsIndexInSpans() -> Pass:
    """Every node gets a span "index": its number in post-order as the line, that of its post-dominator as the column.

    The column is -1 where there is none. Operators and constructors have no spans of their own.
    """

    def run(func: Function, mod: IRModule, context: PassContext) -> Function:
        return _indexed(func)

    return FunctionPass(run, PassInfo(0, "CapturePostDfsIndexInSpans"))


def _indexed(func: Function) -> Function:
    roots: list[Expr] = [func]
    order = list(post_order(roots))
    number = {id(node): n for n, node in enumerate(order)}
    users: dict[int, list[Expr]] = {id(node): [] for node in order}
    for node in order:
        for kid in node.children():
            users[id(kid)].append(node)
    tree = DominatorTree(reversed(order), lambda node: users[id(node)])
    new: dict[int, Expr] = {}
    for node in order:
        above = tree.parent(node)
        line, column = number[id(node)], -1 if above is None else number[id(above)]
        made = rebuild(node, new)
        if not isinstance(node, Op | Constructor):
            made = replace(made, span=Span("index", line, column, line, column))
        new[id(node)] = made
    found = new[id(func)]
    assert isinstance(found, Function)
    return found
