"""Rewriting: what matches is replaced, again and again, until nothing changes.

Rules are applied one after the other, each wherever it matches at once: matches are looked for from the result on, none
overlaps another, none has a value inside that is used outside, unless the rule says so, and none is in a function that
is primitive or comes from a pattern. Then all are replaced, operands first, so that a rule sees what has become of the
operands. When all rules have had their turn, the first is tried again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, VerifyError
from legato.base.tally import count, line_of
from legato.ir.equal import alpha_equal
from legato.ir.expr import Expr
from legato.ir.module import Module
from legato.ir.scope import bound_twice, misplaced, place
from legato.ir.visit import bound_vars, free_vars, with_operands
from legato.patterns.effects import RegionEffects
from legato.patterns.graph import Graph, typed
from legato.patterns.match import Match, match_in
from legato.patterns.pattern import Pattern
from legato.patterns.region import Region, finished, region_of
from legato.patterns.search import Search

__all__ = ["Callback", "Rule", "rewrite"]

_ROUNDS: Final = 100
_GROWTH: Final = 10  # how many times as many nodes as at first, and …
_ROOM: Final = 1000  # … how many more a program may come to have


@dataclass(frozen=True, slots=True, eq=False)
class Rule(ABC):
    """What `pattern` matches is replaced.

    name: in messages; at: the line of source that makes it, as file:line. once: in the first round only. needs_types:
    `replacement` is given expressions with types. shared: also where a value inside the match is used outside; there it
    stays.
    """

    pattern: Pattern
    name: str = field(default="a rule", kw_only=True)
    at: str = field(default="", kw_only=True)
    once: bool = field(default=False, kw_only=True)
    needs_types: bool = field(default=False, kw_only=True)
    shared: bool = field(default=False, kw_only=True)

    def allows(self, region: Region, effects: RegionEffects) -> bool:
        """Whether this rule may replace a region that matches."""
        return True

    @abstractmethod
    def replacement(self, old: Expr, now: Expr, match: Match) -> Expr | None:
        """What `old`, a node that matches, is replaced by; None: nothing.

        `now` is `old` with new operands, and what parts of the pattern stand for in `match` is new as well.
        """


@dataclass(frozen=True, slots=True, eq=False)
class Callback(Rule):
    """A rule whose replacements a function makes, which answers for what they mean."""

    build: Callable[[Expr, Expr, Match], Expr | None]

    def __post_init__(self) -> None:
        if not self.at:
            object.__setattr__(self, "at", line_of(self.build))

    def replacement(self, old: Expr, now: Expr, match: Match) -> Expr | None:
        made = self.build(old, now, match)
        if made is None or isinstance(made, Expr):
            return made
        raise CompileError(f"{self.name} gives no expression: {made!r}", hint="None leaves what matches as it is")


def rewrite(rules: Rule | Sequence[Rule], expr: Expr, module: Module | None = None, *, rounds: int = _ROUNDS) -> Expr:
    """`expr`, a part of `module`, with `rules` applied until none changes it; the same object where none did.

    What had types has them afterwards. CompileError for rules that do not come to an end: within `rounds`, or before
    the program is ten times as large; VerifyError where a replacement uses a variable outside of what binds it, and
    TypeCheckError where one does not fit.
    """
    rules = [rules] if isinstance(rules, Rule) else list(rules)
    scene = _Scene(Graph(expr, module))
    if expr.ty is None and any(rule.needs_types for rule in rules):
        scene = _Scene(Graph(typed(expr, module), module))
    start = scene.graph.root
    limit = _ROOM + _GROWTH * len(scene.graph.order)
    for _ in range(rounds):
        before = scene.graph.root
        for rule in rules:
            now = _applied(rule, scene)
            scene = scene if now is scene.graph.root else _Scene(Graph(now, module))
            if len(scene.graph.order) > limit:
                raise _endless([rule], f"the program has grown to more than {limit:,} nodes")
        now = scene.graph.root
        if now is before or alpha_equal(now, before):
            return expr if before is start else _checked(before, start)
        rules = [rule for rule in rules if not rule.once]
        if not rules:
            return _checked(now, start)
    raise _endless(rules, f"they still apply after {rounds} rounds")


class _Scene:
    """A program that rules are tried on, with what is known of it."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.search, self.effects = graph, Search(graph), RegionEffects(graph)
        self.finished = finished(graph)


def _applied(rule: Rule, scene: _Scene) -> Expr:
    """The program with each match of a rule replaced once; the same object where none is."""
    graph = scene.graph
    declined: set[int] = set()  # of the matches that are in the way of others, too
    while matches := _matches(rule, scene, declined):
        new: dict[int, Expr] = {}
        done = 0
        for node in graph.order:
            new[id(node)] = now = with_operands(node, new)
            match = matches.get(id(node))
            if match is None:
                continue
            made = rule.replacement(node, now, _moved(match, new))
            if made is None or made is now:
                declined.add(id(node))
            else:
                new[id(node)] = made
                done += 1
        count(rule, done)
        if not declined.issuperset(matches):
            found = new[id(graph.root)]
            return found if graph.root.ty is None else typed(found, graph.module)
    return graph.root


def _matches(rule: Rule, scene: _Scene, declined: set[int]) -> dict[int, Match]:
    """The matches of a rule that may be replaced together, by the id of the node."""
    taken = set(scene.finished)
    found: dict[int, Match] = {}
    for node in scene.graph.candidates(rule.pattern.head):
        if id(node) in taken or id(node) in declined:
            continue
        match = match_in(scene.search, rule.pattern, node)
        region = None if match is None else region_of(match)
        if match is None or region is None or region.overlaps(taken):
            continue
        if (rule.shared or not region.is_used_outside(scene.graph)) and rule.allows(region, scene.effects):
            taken.update(map(id, region.inside))
            found[id(node)] = match
    return found


def _moved(match: Match, new: dict[int, Expr]) -> Match:
    """A match, with what has become of the expressions that parts stand for."""
    found = {part: tuple(new.get(id(e), e) for e in es) for part, es in match.found.items()}
    return replace(match, root=new[id(match.root)], found=found)


def _checked(new: Expr, old: Expr) -> Expr:
    """`new`, whose variables are used in the scopes that bind them."""
    if new is old:
        return old
    placement = place(new)
    twice = bound_twice(placement)
    if twice is not None:
        raise VerifyError(f"rewriting has bound %{twice[0].name} in two places", details=twice[1])
    bound = set(bound_vars(old))
    lost = misplaced(placement) or next((v for v in free_vars(new) if v in bound), None)
    if lost is not None:
        hint = "a replacement leaves out what binds it"
        raise VerifyError(f"rewriting has moved %{lost.name} out of the scope that binds it", span=lost.span, hint=hint)
    return new


def _endless(rules: Sequence[Rule], why: str) -> CompileError:
    names = ", ".join(rule.name for rule in rules)
    hint = "what a rule makes must not match it again for ever: match less, or apply it once"
    return CompileError(f"rewriting does not come to an end: {why}", details=[f"rules : {names}"], hint=hint)
