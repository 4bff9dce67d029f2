"""Replacing and collecting parts of scalar expressions. Iterative: fused bodies may be thousands of nodes deep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from legato.arith.expr import Expr, Var
from legato.base.node import post_order

__all__ = ["replace", "rewrite", "substitute", "variables"]


def substitute(e: Expr, mapping: Mapping[Var, Expr]) -> Expr:
    """`e` with every variable of `mapping` replaced, through Loads and calls; the same object where none occurs.

    All replacements happen at once: variables inside the new expressions are left alone.
    """
    return _rebuild(e, lambda node: mapping.get(node) if type(node) is Var else None) if mapping else e


def replace(e: Expr, parts: Mapping[Expr, Expr]) -> Expr:
    """`e` with whole subexpressions replaced, outermost first; the same object where none occurs."""
    return _rebuild(e, parts.get) if parts else e


def rewrite(e: Expr, f: Callable[[Expr], Expr | None]) -> Expr:
    """`e` rewritten bottom-up, each distinct node once: `f(node)` sees new children; None keeps the node."""
    return _rebuild(e, lambda _: None, f)


def _rebuild(e: Expr, known: Callable[[Expr], Expr | None], f: Callable[[Expr], Expr | None] | None = None) -> Expr:
    """`e` with what is `known` of a node put in its place, and `f` applied to every other node once rebuilt."""
    memo: dict[Expr, Expr] = {}
    stack = [e]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        given = known(node)
        if given is not None:
            memo[node] = given
            continue
        kids = node.children()
        pending = [k for k in kids if k not in memo]
        if pending:
            stack += reversed(pending)
            continue
        new = tuple([memo[k] for k in kids])
        fresh = node if new == kids else node.with_children(new)  # nodes compare by identity
        replaced = None if f is None else f(fresh)
        memo[node] = fresh if replaced is None else replaced
    return memo[e]


def variables(*exprs: Expr) -> tuple[Var, ...]:
    """The variables that occur in `exprs`, each once, in the order of their first occurrence."""
    return tuple(node for node in nodes(*exprs) if isinstance(node, Var))


def nodes(*exprs: Expr) -> Iterator[Expr]:
    """Every distinct node of `exprs`, operands before the node that uses them."""
    return post_order(exprs)
