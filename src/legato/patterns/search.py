"""The search for what each part of a pattern stands for.

A list of goals (this pattern, that expression) is worked off; a goal is met in one of several ways, each of which is a
list of further goals. Where none is left, the last goal that has another way is taken up again. No step recurses, so
patterns and programs may be of any depth.

A part of a pattern that shares nothing with the rest is *closed*: what it stands for does not depend on the rest. So
where it does not match an expression once, it never does, and where it does match, its other ways need not be tried.
The search for a pattern without shared parts takes at most |pattern| · |program| steps for that. One whose shared parts
make it longer than `_PATIENCE` ends with an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from legato.base.errors import CompileError
from legato.ir.dominators import DominatorTree
from legato.ir.expr import Expr
from legato.patterns.graph import Graph

if TYPE_CHECKING:
    from legato.patterns.pattern import DominatorPattern, Pattern, Way

__all__ = ["Bound", "Search", "all_parts"]

Bound = dict["Pattern", Expr]
Goals = tuple["tuple[Pattern, Expr] | int", "Goals"] | None  # a number: drop the choices from there on

_PATIENCE: Final = 1_000_000  # steps of one search


class _Choice(NamedTuple):
    """A goal, its ways that were not tried yet, the goals behind it, and how much was bound before."""

    pattern: Pattern
    expr: Expr
    ways: Iterator[Way]
    rest: Goals
    bound: int


def all_parts(pattern: Pattern) -> list[Pattern]:
    """All patterns in a pattern, itself first, each before its parts."""
    found: list[Pattern] = []
    seen: set[Pattern] = set()
    stack = [(pattern, False)]
    while stack:
        top, done = stack.pop()
        if done:
            found.append(top)
        elif top not in seen:
            seen.add(top)
            stack.append((top, True))
            stack += [(part, False) for part in top.parts()]
    return found[::-1]


class Search:
    """Searches in one graph, which share what does not match."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._closed: dict[Pattern, frozenset[Pattern]] = {}  # by the whole pattern
        self._failed: set[tuple[Pattern, int]] = set()  # closed patterns and the expressions that they do not match
        self._alone: dict[tuple[Pattern, int], bool] = {}
        self._nearest: dict[tuple[Pattern, int], Expr | None] = {}

    def first(self, pattern: Pattern, expr: Expr) -> Bound | None:
        """What each part of `pattern` stands for in the first match of `expr`; None if it does not match."""
        closed = self._closed_in(pattern)
        bound: Bound = {}
        trail: list[Pattern] = []
        choices: list[_Choice] = []
        goals: Goals = ((pattern, expr), None)
        for _ in range(_PATIENCE):
            if goals is None:
                return bound
            goal, rest = goals
            if isinstance(goal, int):
                del choices[goal:]
                goals = rest
                continue
            part, e = goal
            known = bound.get(part)
            if known is not None and known == e:
                goals = rest
                continue
            if known is None and (part, id(e)) not in self._failed:
                behind = (len(choices), rest) if part in closed else rest
                choices.append(_Choice(part, e, part.ways(e, self), behind, len(trail)))
            following = self._next_way(choices, bound, trail, closed)
            if following is False:
                return None
            goals = following
        raise CompileError(
            f"matching takes more than {_PATIENCE:,} steps",
            hint="parts of the pattern occur at many of its places and may stand for too much: say more of them",
        )

    def _next_way(
        self, choices: list[_Choice], bound: Bound, trail: list[Pattern], closed: frozenset[Pattern]
    ) -> Goals | Literal[False]:
        """The goals of the next way that was not tried yet; False where there is none."""
        while choices:
            top = choices[-1]
            while len(trail) > top.bound:
                del bound[trail.pop()]
            way = next(top.ways, None)
            if way is not None:
                bound[top.pattern] = top.expr
                trail.append(top.pattern)
                goals = top.rest
                for goal in reversed(way):
                    goals = (goal, goals)
                return goals
            choices.pop()
            if top.pattern in closed:
                self._failed.add((top.pattern, id(top.expr)))
        return False

    def matches(self, pattern: Pattern, expr: Expr) -> bool:
        """Whether `expr` matches `pattern` by itself."""
        key = pattern, id(expr)
        if key not in self._alone:
            self._alone[key] = self.first(pattern, expr) is not None
        return self._alone[key]

    def parents(self, child: Expr, dominator: DominatorPattern) -> Iterator[Expr]:
        """The nodes that may be the parent of a dominator pattern whose child is `child`, nearest first.

        All paths from one lead to the child, all paths to the child come from it, and all between match the path.
        """
        found = self._above(child, dominator)
        while found is not None and self.graph.post_dominators.dominates(child, found):
            yield found
            found = self._above(found, dominator) if self.matches(dominator.path, found) else None

    def _above(self, node: Expr, dominator: DominatorPattern) -> Expr | None:
        """The nearest dominator of `node` that matches the parent by itself, with what is between on the path.

        It is the same for all nodes on the way to it, which are walked over once.
        """
        way: list[Expr] = []
        found: Expr | None = None
        at: Expr | None = node
        while at is not None:
            key = dominator, id(at)
            if key in self._nearest:
                found = self._nearest[key]
                break
            way.append(at)
            above = self.graph.dominators.parent(at)
            if above is None or not all(self.matches(dominator.path, e) for e in self.graph.between(above, at)):
                break
            if self.matches(dominator.parent, above):
                found = above
                break
            at = above if self.matches(dominator.path, above) else None
        self._nearest.update({(dominator, id(e)): found for e in way})
        return found

    def _closed_in(self, whole: Pattern) -> frozenset[Pattern]:
        """The parts of `whole` below which nothing is that is below another part as well."""
        if whole not in self._closed:
            self._closed[whole] = _closed(whole)
        return self._closed[whole]


def _closed(whole: Pattern) -> frozenset[Pattern]:
    order = all_parts(whole)
    users: dict[Pattern, list[Pattern]] = {part: [] for part in order}
    for part in order:
        for inner in part.parts():
            users[inner].append(part)
    tree = DominatorTree(order, users.__getitem__)
    shared: dict[Pattern, int] = {}  # how deep what dominates all that is below a part lies
    found: list[Pattern] = []
    for part in reversed(order):
        depth = tree.depth(part)
        shared[part] = min((min(tree.depth(p) - 1, shared[p]) for p in part.parts()), default=depth)
        if shared[part] >= depth:
            found.append(part)
    return frozenset(found)
