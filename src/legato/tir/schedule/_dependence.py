"""When two iterations of a loop nest touch the same element: the legality behind every primitive.

The question is answered for pairs of accesses to one buffer, from their subscripts alone (guards are ignored, which can
only refuse more): if both touch the same element, in which loop variables do the two iterations agree? A subscript
c1·x1 + c2·x2 + … that has the same value twice has the same x1 where |c1| is larger than all that the other terms can
differ by, then the same x2, and so on. `x // c` and `x % c` together determine x. Everything not understood is unknown,
and unknown means no.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from collections.abc import Set as AbstractSet

from legato.arith.bounds import Bounds
from legato.arith.expr import Binary, Const, Expr, Op, Var
from legato.arith.linear import gather
from legato.arith.substitute import nodes, substitute
from legato.base.dataclass import dataclass
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.schedule._edit import ranges
from legato.tir.stmt import Alloc, For, Let, Stmt, Store
from legato.tir.walk import statements

__all__ = ["Access", "Agreement", "Dependence", "accesses", "blamed", "conflicts", "private"]


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of `buffer[indices]`; Lets in the subscripts are expanded."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    is_write: bool


def accesses(stmt: Stmt) -> list[Access]:
    """Every distinct access under `stmt`, in program order."""
    lets: dict[Var, Expr] = {}
    found: dict[tuple[Buffer, tuple[Expr, ...], bool], None] = {}
    for s in statements(stmt):
        exprs = tuple([substitute(e, lets) for e in s.exprs()]) if lets else s.exprs()
        for e in nodes(*exprs):
            if isinstance(e, Load):
                found[e.buffer, e.indices, False] = None
        if isinstance(s, Store):
            found[s.buffer, exprs[:-1], True] = None
        if isinstance(s, Let):
            lets[s.var] = exprs[0]
    return [Access(*key) for key in found]


def private(stmt: Stmt) -> set[Buffer]:
    """Buffers that live inside `stmt`: a fresh one each time it runs."""
    return {s.buffer for s in statements(stmt) if isinstance(s, Alloc)}


def conflicts(
    first: Iterable[Access], second: Iterable[Access], ignored: Container[Buffer]
) -> list[tuple[Access, Access]]:
    """Pairs of accesses to one buffer, at least one a write."""
    by_buffer: dict[Buffer, list[Access]] = {}
    for b in second:
        by_buffer.setdefault(b.buffer, []).append(b)
    return [(a, b) for a in first if a.buffer not in ignored for b in by_buffer.get(a.buffer, ())
            if a.is_write or b.is_write]  # fmt: skip


class Agreement:
    """Two iterations that differ in the variables `shared` and `inner`; `volatile` memory changes in between."""

    def __init__(
        self, shared: AbstractSet[Var], inner: AbstractSet[Var], bounds: Bounds, volatile: AbstractSet[Buffer]
    ):
        self.shared, self.inner, self.bounds, self.volatile = shared, inner, bounds, volatile
        self.known: set[Expr] = set()  # atoms with the same value in both iterations
        self.disjoint = False  # the subscripts are never equal

    def solve(self, a: tuple[Expr, ...], b: tuple[Expr, ...]) -> set[Var]:
        """The variables of `shared` that are equal whenever the subscripts `a` in one equal `b` in the other."""
        equations = list(zip(a, b, strict=True))
        while True:
            before = len(self.known), len(equations)
            for x, y in equations:
                self._learn(x, y)
            equations += [(e, e) for e in self._divided() if (e, e) not in equations]
            if self.disjoint:
                return set(self.shared)
            if (len(self.known), len(equations)) == before:
                return {v for v in self.shared if v in self.known}

    def _divided(self) -> list[Expr]:
        """x for which both x // c and x % c are known."""
        quotients = {(e.a, e.b) for e in self.known if isinstance(e, Binary) and e.op is Op.FLOORDIV}
        rests = {(e.a, e.b) for e in self.known if isinstance(e, Binary) and e.op is Op.FLOORMOD}
        return [x for x, c in quotients & rests if isinstance(c, Const) and int(c.value) > 0]

    def _learn(self, x: Expr, y: Expr) -> None:
        """What x in one iteration = y in the other says."""
        ours, total = gather(x)
        theirs, offset = gather(y)
        same = x is y
        lo = hi = offset - total  # of the part that may differ, beyond the common terms
        common: list[tuple[int, Expr]] = []
        for t in {**ours, **theirs}:
            c, d = ours.get(t, 0), theirs.get(t, 0)
            if c == d and (t in self.known or self._is_fixed(t)):
                continue
            if c == d and (same or self._is_shared(t)):
                common.append((c, t))
                continue
            least, most = self._range(t)
            if least is None or most is None:
                return
            for k in (-c, d):
                lo += min(k * least, k * most)
                hi += max(k * least, k * most)
        self._decide([(c, t) for c, t in common if c], lo, hi)

    def _decide(self, common: list[tuple[int, Expr]], lo: int, hi: int) -> None:
        """0 is Σ c·(t' − t) plus something from lo to hi: the atoms that cannot differ then, or that it cannot be."""
        common.sort(key=lambda item: abs(item[0]))
        reach: list[int | None] = []  # how much the terms below each one can differ by
        total: int | None = max(abs(lo), abs(hi))
        for c, t in common:
            reach.append(total)
            least, most = self._range(t)
            total = None if total is None or least is None or most is None else total + abs(c) * (most - least)
        self.disjoint = self.disjoint or (total is not None and max(lo, -hi) > total - max(abs(lo), abs(hi)))
        for (c, t), below in zip(reversed(common), reversed(reach), strict=True):
            if below is None or abs(c) <= below:
                return
            self.known.add(t)

    def _range(self, t: Expr) -> tuple[int | None, int | None]:
        return self.bounds.of(t)

    def _is_fixed(self, t: Expr) -> bool:
        """True if `t` has the same value in all iterations."""
        return not any(n in self.shared or n in self.inner or self._changes(n) for n in nodes(t))

    def _is_shared(self, t: Expr) -> bool:
        """True if `t` is a function of the shared variables alone."""
        return not any(n in self.inner or self._changes(n) for n in nodes(t))

    def _changes(self, n: Expr) -> bool:
        return isinstance(n, Load) and n.buffer in self.volatile


class Dependence:
    """Which iterations of the loops `shared` (all in the nest `stmt`) may touch the same element.

    `path` are the statements around `stmt`: their variables are the same in all iterations.
    """

    def __init__(self, stmt: Stmt, path: Sequence[Stmt], shared: Sequence[Var]) -> None:
        inside = list(statements(stmt))
        self.shared = frozenset(shared)
        self.inner = {s.var for s in inside if isinstance(s, For | Let)} - self.shared
        self.bounds = Bounds(ranges(inside, ranges(path)))
        self.volatile = {s.buffer for s in inside if isinstance(s, Store)}

    def agreeing(self, a: Access, b: Access) -> set[Var]:
        """Those of `shared` on which two iterations must agree if `a` in one and `b` in the other touch one element."""
        return Agreement(self.shared, self.inner, self.bounds, self.volatile).solve(a.indices, b.indices)

    def separated(self, pairs: Iterable[tuple[Access, Access]]) -> set[Var]:
        """The variables on which iterations agree in every one of the conflicting `pairs`."""
        left = set(self.shared)
        for a, b in pairs:
            if not left:
                break
            left &= self.agreeing(a, b)
        return left


def blamed(loop: For, path: Sequence[Stmt]) -> list[Buffer]:
    """The buffers through which iterations of `loop` may depend on each other; none if they are independent."""
    found = accesses(loop.body)
    dependence = Dependence(loop, path, [loop.var])
    pairs = conflicts(found, found, private(loop.body))
    return list(dict.fromkeys(a.buffer for a, b in pairs if not dependence.agreeing(a, b)))
