"""Where shared nodes with effects are first needed: what of them the innermost scope of all their uses may compute.

A node that several places use is computed at the first of them that is reached. Where every way through the scope that
holds all uses comes to that place first, the scope can compute the node once, there. Otherwise the node is *split*:
places in branches, clauses and functions compute it, each for itself (docs/language_order.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Final

from legato.base.dataclass import dataclass
from legato.ir.effects import Effect, Effects
from legato.ir.expr import Expr, Function, If, Let, Match
from legato.ir.scope import Scope, operands

__all__ = ["SPLIT", "Place", "Sharing", "Use", "common"]

SPLIT: Final = -1


@dataclass(frozen=True, eq=False, slots=True)
class Use:
    """Operand `index` of `parent`, evaluated in `scope`; by `rank`, uses are in the order of evaluation."""

    parent: Expr
    index: int
    scope: Place
    rank: int


class Place(Scope):
    """A scope: operand `index` of `opener`, which is `expr`; or a split node, its own opener, with index SPLIT.

    gate: the innermost scope around, itself included, that is not always evaluated when what is around it is;
    function: likewise, that of a function's body.
    """

    __slots__ = ("expr", "function", "gate", "index", "opener")

    def __init__(self, around: Place | None, opener: Expr, index: int, expr: Expr) -> None:
        super().__init__(around)
        self.opener, self.index, self.expr = opener, index, expr
        is_always = isinstance(opener, Let) and index != SPLIT
        self.gate: Place = around.gate if around is not None and is_always else self
        is_inside = around is not None and not isinstance(opener, Function)
        self.function: Place = around.function if around is not None and is_inside else self

    def gates(self) -> list[Place]:
        """The gates around, innermost first."""
        found = [self.gate]
        while isinstance(found[-1].parent, Place):
            found.append(found[-1].parent.gate)
        return found


@dataclass(slots=True)
class _Uses:
    """The uses of one node so far, and the innermost scope that holds them."""

    scope: Place
    found: list[Use] = field(default_factory=list)


class Sharing:
    """The uses of every shared node with effects in `func`. split: the nodes that several places compute, by id; of
    these, scope is the innermost scope of all uses, inside that of what they compute."""

    def __init__(self, func: Function, effects: Effects) -> None:
        self._effects = effects
        self.order, self._ranks = _visit(func)
        self._bits = self._candidates()
        self._needs = self._needed() if self._bits else {}
        self.uses: dict[int, Sequence[Use]] = {}
        self.split: dict[int, Expr] = {}
        self.scope: dict[int, Place] = {}
        self.inside: dict[int, Place] = {}
        if self._bits:
            self._place(func)

    def _candidates(self) -> dict[int, int]:
        """The nodes with effects and more than one use, each with a bit of its own."""
        count: dict[int, int] = {}
        for node in self.order:
            for kid in operands(node):
                count[id(kid)] = count.get(id(kid), 0) + 1
        shared = [n for n in self.order if count.get(id(n), 0) > 1 and self._effects.inside(n)]
        return {id(node): 1 << k for k, node in enumerate(shared)}

    def _needed(self) -> dict[int, int]:
        """For each node, the candidates that are computed whenever it is."""
        needs: dict[int, int] = {}
        for node in self.order:
            found = self._bits.get(id(node), 0)
            kids = [needs[id(kid)] for kid in operands(node)]
            match node:
                case Function():
                    pass
                case If() | Match():
                    found |= kids[0]
                    every = -1 if len(kids) > 1 else 0
                    for kid in kids[1:]:
                        every &= kid
                    found |= every
                case _:
                    for kid in kids:
                        found |= kid
            needs[id(node)] = found
        return needs

    def _place(self, func: Function) -> None:
        """Parents first: when a node is met, all its uses are known."""
        known = {id(func): _Uses(Place(None, func, SPLIT, func))}
        for node in reversed(self.order):
            of = known[id(node)]
            scope = of.scope
            if id(node) in self._bits:
                self.uses[id(node)] = of.found = sorted(of.found, key=lambda u: u.rank)
                if not self.is_at_once(node, of.found):
                    self.split[id(node)], self.scope[id(node)] = node, scope
                    scope = self.inside[id(node)] = Place(scope, node, SPLIT, node)
            for n, kid in enumerate(operands(node)):
                at = Place(scope, node, n, kid) if _opens(node, n) else scope
                use = Use(node, n, at, self._ranks[id(node), n])
                uses = known.setdefault(id(kid), _Uses(at))
                uses.found.append(use)
                common = uses.scope.common(at)
                assert isinstance(common, Place)
                uses.scope = common

    def is_at_once(self, node: Expr, uses: Sequence[Use]) -> bool:
        """True if the innermost scope of `uses`, in their order, may compute the node at the first of them."""
        scope = common(uses)
        first = uses[0].scope
        touches = bool(self._effects.of(node) & Effect.CELLS)
        if touches and any(u.scope.function is not scope.function for u in uses):
            return False
        if first.gate is scope.gate:
            return True
        if touches or first.function is not scope.function:
            return False
        return bool(self._bits[id(node)] & self._needs[id(scope.expr)])  # it only comes earlier

    def places(self, node: Expr, uses: Iterable[Use]) -> list[list[Use]]:
        """The uses of a node, those together for which it can be computed at once."""
        found, todo = [], [list(uses)]
        while todo:
            group = todo.pop()
            if self.is_at_once(node, group):
                found.append(group)
                continue
            around = common(group).gate
            parts: dict[Place, list[Use]] = {}
            for use in group:
                gates = use.scope.gates()
                parts.setdefault(gates[gates.index(around) - 1], []).append(use)
            todo += parts.values()
        return found


def common(uses: Sequence[Use]) -> Place:
    """The innermost scope that holds all uses."""
    scope: Scope = uses[0].scope
    for use in uses[1:]:
        scope = scope.common(use.scope)
    assert isinstance(scope, Place)
    return scope


def _opens(node: Expr, operand: int) -> bool:
    match node:
        case Function():
            return True
        case If() | Match() | Let():
            return operand > 0
        case _:
            return False


def _visit(root: Expr) -> tuple[list[Expr], dict[tuple[int, int], int]]:
    """Every node once, operands first, in the order of evaluation; and when each operand of each node is come to."""
    order: list[Expr] = []
    ranks: dict[tuple[int, int], int] = {}
    seen: set[int] = set()
    stack: list[tuple[Expr, tuple[int, int] | None, bool]] = [(root, None, False)]
    while stack:
        node, at, done = stack.pop()
        if done:
            order.append(node)
            continue
        if at is not None:
            ranks[at] = len(ranks)
        if id(node) not in seen:
            seen.add(id(node))
            stack.append((node, None, True))
            kids = operands(node)
            stack += [(kids[n], (id(node), n), False) for n in reversed(range(len(kids)))]
    return order, ranks
