"""Rewriting as data: a rule is (pattern, function), a rule set a tuple of rules, and one driver applies them.

    @rule(node(Binary, wildcard("x"), literal(0)).where(is_add))
    def add_zero(x):
        return x

    simpler = rewrite(root, (add_zero, mul_one))

A pattern is matched against a node and binds names to nodes; a name that occurs twice must meet the same node. The
function gets what is bound, by name, and returns the replacement, or None to decline. The driver goes bottom-up and
comes back to whatever changed until no rule applies anywhere. It works for every node with `children` and
`with_children`: index expressions, the language, loop programs. `ir.pattern` has patterns for the language.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.base.node import Node, rebuild

__all__ = ["NodePattern", "Pattern", "Rule", "Wildcard", "node", "one_of", "rewrite", "rule", "wildcard"]

N = TypeVar("N", bound=Node)
Bound = Mapping[str, Any]
See = Callable[[Any], Any]

_PATIENCE = 1000  # rewrites of one place, one after the other, before the rules count as endless


class Pattern(ABC):
    """A set of nodes, with names for parts of them. Patterns are values: build them once, use them anywhere."""

    @abstractmethod
    def matches(self, subject: Any, bound: Bound, see: See) -> Iterator[Bound]:
        """`bound` extended by every way in which `subject` matches; `see` gives the node that a part stands for."""

    @property
    def head(self) -> Hashable:
        """The head that a node must have to match at all, usually its class; None if that is not known."""
        return None

    def match(self, subject: Any, see: See | None = None) -> Bound | None:
        """The names of the first match, or None."""
        return next(self.matches(subject, {}, see or _itself), None)

    def named(self, name: str) -> Pattern:
        """This pattern, which binds the whole node to `name` (where the driver sees through variables: their value)."""
        return _Named(self, name)

    def where(self, test: Callable[[Any], bool]) -> Pattern:
        """This pattern for nodes that pass `test`."""
        return _Where(self, test)

    def __or__(self, other: Pattern) -> Pattern:
        return one_of(self, other)


def _itself(subject: Any) -> Any:
    return subject


def _bind(name: str, subject: Any, bound: Bound) -> Bound | None:
    """`bound` with `name`; None if it means another node. Nodes are the same if equal: most compare by identity."""
    if name in bound:
        return bound if bound[name] == subject else None
    return {**bound, name: subject}


@dataclass(frozen=True, slots=True)
class Wildcard(Pattern):
    """Any node; binds it if there is a name."""

    name: str | None = None

    def matches(self, subject: Any, bound: Bound, see: See) -> Iterator[Bound]:
        found = bound if self.name is None else _bind(self.name, subject, bound)
        if found is not None:
            yield found


@dataclass(frozen=True, slots=True)
class NodePattern(Pattern):
    """A node of class `kind` whose children match `parts` one by one (None: any), in any order if `commutative`."""

    kind: type
    parts: tuple[Pattern, ...] | None = None
    commutative: bool = False

    @property
    def head(self) -> Hashable:
        return self.kind

    def matches(self, subject: Any, bound: Bound, see: See) -> Iterator[Bound]:
        subject = subject if isinstance(subject, self.kind) else see(subject)
        if not isinstance(subject, self.kind):
            return
        if self.parts is None:
            yield bound
        else:
            children: Sequence[Any] = subject.children()  # type: ignore[attr-defined]  # every node has children
            yield from match_all(self.parts, children, bound, see, self.commutative)


def match_all(
    parts: Sequence[Pattern], subjects: Sequence[Any], bound: Bound, see: See, commutative: bool = False
) -> Iterator[Bound]:
    """`bound` extended by every way in which `subjects` match `parts`, also swapped if `commutative` (two parts)."""
    if len(parts) != len(subjects):
        return
    yield from _in_order(parts, subjects, bound, see)
    if commutative and len(parts) == 2:
        yield from _in_order(parts, (subjects[1], subjects[0]), bound, see)


def _in_order(parts: Sequence[Pattern], subjects: Sequence[Any], bound: Bound, see: See) -> Iterator[Bound]:
    if not parts:
        yield bound
        return
    for found in parts[0].matches(subjects[0], bound, see):
        yield from _in_order(parts[1:], subjects[1:], found, see)


@dataclass(frozen=True, slots=True)
class _Named(Pattern):
    pattern: Pattern
    name: str

    @property
    def head(self) -> Hashable:
        return self.pattern.head

    def matches(self, subject: Any, bound: Bound, see: See) -> Iterator[Bound]:
        for found in self.pattern.matches(subject, bound, see):
            named = _bind(self.name, see(subject), found)
            if named is not None:
                yield named


@dataclass(frozen=True, slots=True)
class _Where(Pattern):
    pattern: Pattern
    test: Callable[[Any], bool]

    @property
    def head(self) -> Hashable:
        return self.pattern.head

    def matches(self, subject: Any, bound: Bound, see: See) -> Iterator[Bound]:
        for found in self.pattern.matches(subject, bound, see):
            if self.test(see(subject)):
                yield found


@dataclass(frozen=True, slots=True)
class _OneOf(Pattern):
    patterns: tuple[Pattern, ...]

    @property
    def head(self) -> Hashable:
        heads = {p.head for p in self.patterns}
        return heads.pop() if len(heads) == 1 else None

    def matches(self, subject: Any, bound: Bound, see: See) -> Iterator[Bound]:
        for p in self.patterns:
            yield from p.matches(subject, bound, see)


def wildcard(name: str | None = None) -> Pattern:
    """Any node, called `name`."""
    return Wildcard(name)


def node(kind: type, *parts: Pattern, commutative: bool = False) -> Pattern:
    """A node of class `kind` with children that match `parts`; with none given, any children."""
    return NodePattern(kind, parts or None, commutative)


def one_of(*patterns: Pattern) -> Pattern:
    """What one of `patterns` matches; the first that does decides the names."""
    return _OneOf(patterns)


@dataclass(frozen=True, slots=True)
class Rule:
    """Where `pattern` matches, `build(**names)` is the replacement, or None to leave the node as it is."""

    pattern: Pattern
    build: Callable[..., Any]
    name: str

    def __call__(self, subject: Any, see: See = _itself) -> Any:
        """The replacement of `subject`, or None."""
        if see(subject) is not subject:
            return None  # it stands for a node that is rewritten at its own place
        for bound in self.pattern.matches(subject, {}, see):
            new = self.build(**bound)
            if new is not None:
                return new
        return None


def rule(pattern: Pattern, name: str = "") -> Callable[[Callable[..., Any]], Rule]:
    """A decorator: the function becomes a rule of its own name."""
    return lambda build: Rule(pattern, build, name or build.__name__)


def rewrite(
    root: N,
    rules: Sequence[Rule],
    *,
    head: Callable[[Any], Hashable] = type,
    see: See | None = None,
    counts: Counter[str] | None = None,
) -> N:
    """`root` with `rules` applied bottom-up until none applies; the same object where none did.

    Of several rules the first in the tuple wins. Shared nodes are rewritten once and stay shared. `head` sorts nodes as
    patterns sort themselves by `Pattern.head`; `see` lets patterns look through parts, such as variables at their
    values. `counts` receives how often each rule applied. InternalError if the rules do not come to an end.
    """
    return _Driver[N](rules, head, see or _itself, counts).run(root)


class _Driver(Generic[N]):
    """One run. `done` maps nodes to what became of them, `forward` to the next step on the way, both by identity."""

    def __init__(
        self, rules: Sequence[Rule], head: Callable[[Any], Hashable], see: See, counts: Counter[str] | None
    ) -> None:
        self.rules = rules
        self.by_head: dict[Hashable, list[Rule]] = {}
        self.head, self.see, self.counts = head, see, counts
        self.done: dict[int, N] = {}
        self.forward: dict[int, N] = {}
        self.steps: dict[int, int] = {}
        self.last = ""
        self.alive: list[N] = []  # ids are of living nodes only

    def run(self, root: N) -> N:
        stack = [root]
        while stack:
            subject = stack[-1]
            if id(subject) in self.done:
                stack.pop()
                continue
            following = self.forward.get(id(subject))
            if following is not None:
                self._follow(stack, subject, following)
                continue
            pending = [c for c in subject.children() if id(c) not in self.done]
            if pending:
                stack += reversed(pending)
                continue
            self.alive.append(subject)
            fresh = rebuild(subject, self.done)
            new = self._apply(fresh) if fresh is subject else fresh
            if new is None or new is subject:
                self.done[id(subject)] = subject
            else:
                self._forward(subject, new)
        return self.done[id(root)]

    def _follow(self, stack: list[N], subject: N, following: N) -> None:
        final = self.done.get(id(following))
        if final is None:
            stack.append(following)
        else:
            self.done[id(subject)] = final
            stack.pop()

    def _forward(self, subject: N, new: N) -> None:
        steps = self.steps[id(new)] = self.steps.get(id(subject), 0) + 1
        end: N | None = new
        while end is not None and end is not subject:
            end = self.forward.get(id(end))
        if end is subject or steps > _PATIENCE:
            raise InternalError(f"rewriting does not come to an end; the last rule was {self.last}")
        self.forward[id(subject)] = new
        self.alive.append(new)

    def _rules(self, subject: N) -> list[Rule]:
        key = self.head(subject)
        found = self.by_head.get(key)
        if found is None:
            found = self.by_head[key] = [r for r in self.rules if _may_match(r.pattern.head, key)]
        return found

    def _apply(self, subject: N) -> N | None:
        for r in self._rules(subject):
            new: N | None = r(subject, self.see)
            if new is not None and new is not subject:
                self.last = r.name
                if self.counts is not None:
                    self.counts[r.name] += 1
                return new
        return None


def _may_match(wanted: Hashable, head: Hashable) -> bool:
    """True unless a node with `head` cannot match a pattern that wants `wanted`."""
    if wanted is None or wanted == head:
        return True
    return isinstance(wanted, type) and isinstance(head, type) and issubclass(head, wanted)
