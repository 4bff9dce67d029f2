"""Blocks of a program in A-normal form: let chains, with those inside of their bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from legato.ir.atoms import is_primitive
from legato.ir.expr import Expr, Function, If, Match
from legato.ir.let import Binding, lets

__all__ = ["with_bindings", "with_blocks"]


def with_blocks(value: Expr, block: Callable[[Expr], Expr]) -> Expr:
    """`value`, of a binding, with `block` of each block inside: branches, clauses and closures. The same object where
    that changes none. Their nesting is shallow: it is written by hand."""
    match value:
        case If() | Match():
            first, *blocks = value.children()
            new = [block(b) for b in blocks]
            same = all(a is b for a, b in zip(new, blocks, strict=True))
            return value if same else value.with_children((first, *new))
        case Function() if not is_primitive(value):
            body = block(value.body)
            return value if body is value.body else replace(value, body=body)
        case _:
            return value


def with_bindings(body: Expr, old: Sequence[Binding], new: Sequence[Binding], result: Expr) -> Expr:
    """Block `body`, whose bindings are `old`, with `new` ones; the same object where they compute the same."""
    same = len(new) == len(old) and all(a is b for (_, a), (_, b) in zip(new, old, strict=True))
    return body if same else lets(new, result)
