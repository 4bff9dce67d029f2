"""Matching: what each part of a pattern stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.ir.expr import Expr, Var
from legato.ir.module import Module
from legato.patterns.graph import Graph, inlined
from legato.patterns.search import Bound, Search

if TYPE_CHECKING:
    from legato.patterns.pattern import Pattern

__all__ = ["Match", "match", "match_in"]


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """`pattern` matches `root`, a part of `module`.

    found: what each part of the pattern stands for; what is in the path of a dominator pattern for any number of
    expressions, what was not needed (an alternative) for none, all others for one. opened: the ids of the nodes that
    the pattern has looked into.
    """

    pattern: Pattern
    root: Expr
    module: Module | None
    found: Mapping[Pattern, tuple[Expr, ...]]
    opened: frozenset[int]

    def __getitem__(self, part: Pattern) -> Expr:
        """What `part` stands for, the first where that are several; CompileError where it is nothing."""
        found = self.found.get(part)
        if not found:
            raise CompileError(f"{part!r} stands for nothing in this match", hint="test `part in match` first")
        return found[0]

    def __contains__(self, part: Pattern) -> bool:
        return part in self.found


def match(
    pattern: Pattern, expr: Expr, values: Mapping[Var, Expr] | None = None, module: Module | None = None
) -> Match | None:
    """What the parts of `pattern` stand for in `expr`, which is part of `module`; None if it does not match.

    Variables of `values` are seen as what these say, as it is written (functions, which may be recursive, excepted).
    Of several ways to match, the first one counts: what is left in an alternative before what is right, arguments in
    order before the other order. TypeCheckError where types are asked for and the expression has none that fit.
    """
    seen = inlined(expr, values) if values else expr
    return match_in(Search(Graph(seen, module)), pattern, seen)


def match_in(search: Search, pattern: Pattern, expr: Expr) -> Match | None:
    """`match` of `expr`, a node of the graph that is searched."""
    bound = search.first(pattern, expr)
    if bound is None:
        return None
    found: dict[Pattern, dict[int, Expr]] = {}
    opened: set[int] = set()
    todo: list[Bound] = [bound]
    while todo:
        part_of = todo.pop()
        for part, e in part_of.items():
            found.setdefault(part, {})[id(e)] = e
            if part.opens:
                opened.add(id(e))
            for node, on_path in part.between(part_of, search):
                opened.add(id(node))
                todo.append(on_path)
    stands_for = {part: tuple(es.values()) for part, es in found.items()}
    return Match(pattern, expr, search.graph.module, stands_for, frozenset(opened))
