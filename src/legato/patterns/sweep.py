"""One sweep of rules: each node is replaced once all that it is computed from has had its turn.

The compiler's own simplifications are such rules. Next to `patterns.rewrite`, which looks at the whole program again
after every rule, a sweep sees each node once, applies what fits until nothing does, and infers nothing: replacements
come with types. Values inside a match that are used outside as well stay there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.base.node import post_order, rebuild
from legato.base.tally import count, line_of
from legato.ir.effects import Effects
from legato.ir.expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem
from legato.ir.op import Op
from legato.patterns.effects import RegionEffects
from legato.patterns.graph import Graph
from legato.patterns.match import Match, match_in
from legato.patterns.pattern import (
    CallPattern,
    ExprPattern,
    FunctionPattern,
    IfPattern,
    LetPattern,
    Pattern,
    TupleGetItemPattern,
    TuplePattern,
)
from legato.patterns.region import Region
from legato.patterns.rewrite import Callback
from legato.patterns.search import Search

__all__ = ["Local", "Sweep", "of_calls"]

_PATIENCE: Final = 100  # rules applied to one node, one after the other
_KINDS: Final[Mapping[type[Pattern], type[Expr]]] = MappingProxyType(
    {
        CallPattern: Call,
        FunctionPattern: Function,
        IfPattern: If,
        LetPattern: Let,
        TupleGetItemPattern: TupleGetItem,
        TuplePattern: Tuple,
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Local(Callback):
    """A rule that needs no more than what it matches.

    drops: the replacement leaves operands out, so that none of them may do more than give a value.
    """

    drops: bool = False

    def allows(self, region: Region, effects: RegionEffects) -> bool:
        """Whether what is left out does nothing."""
        return not self.drops or effects.in_order(region) == []


def of_calls(op: Op, rule: Callable[[Call], Expr | None], *, drops: bool = False) -> Local:
    """The rule that `rule` says of calls of an operator."""

    def build(old: Expr, now: Expr, match: Match) -> Expr | None:
        assert isinstance(now, Call)
        return rule(now)

    name = f"{op.name}: {rule.__name__.strip('_')}"
    return Local(CallPattern(ExprPattern(op)), build, name=name, at=line_of(rule), drops=drops)


class Sweep:
    """Rules, of which the first that fits a node replaces it."""

    def __init__(self, *rules: Local) -> None:
        self.rules: Sequence[Local] = rules
        self._of_op: dict[Op, list[Local]] = {}
        self._of_kind: dict[type[Expr] | None, list[Local]] = {}
        for rule in rules:
            head = rule.pattern.head
            if head is not None:
                self._of_op.setdefault(head, []).append(rule)
            else:
                self._of_kind.setdefault(_KINDS.get(type(rule.pattern)), []).append(rule)

    def over(self, root: Expr, effects: Effects) -> Expr:
        """`root` after the sweep; the same object where no rule fits. Its nodes have types, and these effects."""
        new: dict[int, Expr] = {}
        kept: list[Expr] = []  # ids are keys of what a search knows, so the nodes they name must live
        matcher = _Matcher(root)
        for node in post_order([root]):
            now = rebuild(node, new)
            for _ in range(_PATIENCE):
                made = self._replaced(now, matcher, effects)
                if made is None:
                    break
                kept.append(now)
                now = made
            else:
                raise InternalError(f"rules apply to {now!r} for ever")
            new[id(node)] = now
        return new[id(root)]

    def _candidates(self, node: Expr) -> Iterator[Local]:
        if isinstance(node, Call) and isinstance(node.op, Op):
            yield from self._of_op.get(node.op, ())
        yield from self._of_kind.get(type(node), ())
        yield from self._of_kind.get(None, ())

    def _replaced(self, node: Expr, matcher: _Matcher, effects: Effects) -> Expr | None:
        """What the first rule that fits makes of a node; None where none does."""
        for rule in self._candidates(node):
            match = matcher.match(rule.pattern, node)
            if match is None or (rule.drops and effects.inside(node)):
                continue
            made = rule.replacement(node, node, match)
            if made is not None and made is not node:
                count(rule, 1)
                return made
        return None


class _Matcher:
    """Matches patterns in what becomes of an expression."""

    def __init__(self, root: Expr) -> None:
        self._root = root

    @cached_property
    def _search(self) -> Search:
        return Search(Graph(self._root))

    def match(self, pattern: Pattern, node: Expr) -> Match | None:
        """What the parts of `pattern` stand for, which has the node for a candidate."""
        if isinstance(pattern, CallPattern) and pattern.args is None and pattern.head is not None:
            assert isinstance(node, Call)  # of that operator: there is nothing to search for
            return Match(pattern, node, None, {pattern: (node,), pattern.op: (node.op,)}, frozenset((id(node),)))
        return match_in(self._search, pattern, node)
