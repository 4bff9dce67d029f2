"""Basic blocks: what is evaluated together, and what several of them share.

A block is the body of a function, a branch of an If or a clause of a Match; lets and dataflow blocks belong to the
block that they stand in. In basic-block normal form a value that several blocks use is bound to a variable.
"""

from __future__ import annotations

from legato.base.dataclass import dataclass
from legato.ir.atoms import is_operand, is_primitive
from legato.ir.expr import Dataflow, Expr, Function, If, Let, Match
from legato.ir.scope import Scope, operands, post_order

__all__ = ["Point", "Shared", "shared_by_blocks"]


class Point(Scope):
    """Where something can be bound so that what is behind it, in `block` and in the blocks inside, may use it: before
    operand `index` of `opener` (of a dataflow block: binding `index`, or the outputs)."""

    __slots__ = ("block", "index", "opener")

    def __init__(self, around: Point | None, opener: Expr, index: int, *, opens: bool) -> None:
        super().__init__(around)
        self.opener, self.index = opener, index
        self.block: Point = self if around is None or opens else around.block


@dataclass(frozen=True, slots=True)
class Shared:
    """order: every node, operands first. at: by id, the innermost point that all uses of a node are behind; values:
    the nodes that are used in several blocks, operands first, but for what is no computation (`is_operand`)."""

    order: list[Expr]
    at: dict[int, Point]
    values: list[Expr]


def shared_by_blocks(root: Expr) -> Shared:
    """What the blocks in `root`, which is one, share."""
    order = list(post_order(root))
    at = {id(root): Point(None, root, -1, opens=True)}
    several: set[int] = set()
    for node in reversed(order):  # parents first: when a node is met, every use of it is known
        if id(node) not in at:
            continue  # inside a group
        for kid, point in zip(operands(node), _points(node, at[id(node)]), strict=False):
            known = at.setdefault(id(kid), point)
            common = known.common(point)
            assert isinstance(common, Point)
            if known.block is not point.block:
                several.add(id(kid))
            at[id(kid)] = common
    values = [n for n in order if id(n) in several and not is_operand(n)]
    return Shared(order, at, values)


def _points(node: Expr, own: Point) -> list[Point]:
    """Where each operand of a node is evaluated."""
    match node:
        case Function():
            return [] if is_primitive(node) else [Point(own, node, 0, opens=True)]
        case Let():
            return [own, Point(own, node, 1, opens=False)]
        case If() | Match():
            return [own, *(Point(own, node, n, opens=True) for n in range(1, len(operands(node))))]
        case Dataflow(bindings, outputs):
            points = [own]
            for n in range(1, len(bindings) + 1):
                points.append(Point(points[-1], node, n, opens=False))
            return [*points, *(points[-1] for _ in outputs[1:])]
        case _:
            return [own for _ in operands(node)]
