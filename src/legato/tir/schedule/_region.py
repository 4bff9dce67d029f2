"""Which part of a buffer a piece of program touches: a box, with bounds in terms of the variables outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from legato.arith.expr import Binary, Const, Expr, Op, Var, const, floordiv, land, le, lt, max_, min_
from legato.arith.linear import build, factors, gather
from legato.arith.simplify import Simplifier
from legato.arith.substitute import nodes, substitute
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.tir.buffer import Buffer
from legato.tir.expr import Load
from legato.tir.schedule._dependence import Access
from legato.tir.schedule._edit import extents, limits, ranges
from legato.tir.stmt import For, Let, Stmt, Store
from legato.tir.walk import has_load, statements

__all__ = ["Bounds", "Box", "Region", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """The indices lo, …, lo + size - 1: all that are touched, perhaps more."""

    lo: Expr
    size: Expr


Box = tuple[Span, ...]
Bounds = tuple[Expr, Expr, Expr]  # (least, greatest, at least their difference), without inner variables


class Region:
    """Boxes of what `stmt` touches, where `path` are the statements around it (itself not included)."""

    def __init__(self, stmt: Stmt, path: Sequence[Stmt]) -> None:
        inside = list(statements(stmt))
        self.sizes = extents(inside)
        self.inner = {s.var for s in inside if isinstance(s, For | Let)}
        self.stored = {s.buffer for s in inside if isinstance(s, Store)}
        outer = ranges(path)
        self.simplify = Simplifier(outer, limits(path))
        self.lets = _lets(path)
        self.ranges = ranges(inside, outer)

    def box(self, buffer: Buffer, accesses: Iterable[Access]) -> Box:
        """The box of all `accesses` to `buffer`; the whole extent where a subscript is not understood."""
        mine = [a for a in accesses if a.buffer is buffer]
        return tuple(self._dimension(buffer, d, [a.indices[d] for a in mine]) for d in range(buffer.rank))

    def exact(self, indices: Iterable[Expr]) -> Box | None:
        """The box of one access, not cut to the buffer; None if a subscript is not understood."""
        spans = tuple(self._span(i) for i in indices)
        return None if None in spans else tuple(s for s in spans if s is not None)

    def guard(self, span: Span, var: Var, lo: Expr, hi: Expr) -> Expr | None:
        """What `var` over the span's size must satisfy for lo <= span.lo + var < hi; None if it always does."""
        conds: list[Expr] = []
        if not self.holds(span.lo - lo):
            conds.append(le(lo, span.lo + var))
        if not self.holds(hi - span.lo - span.size):
            conds.append(lt(span.lo + var, hi))
        return land(*conds) if len(conds) == 2 else conds[0] if conds else None

    def holds(self, e: Expr) -> bool:
        """Whether e >= 0 is proven."""
        return self._holds(e) or (bool(self.lets) and self._holds(substitute(e, self.lets)))

    def _holds(self, e: Expr) -> bool:
        terms, total = gather(self.simplify(e))
        if self.simplify.nonnegative(terms, total):
            return True
        for t, c in terms.items():  # -min(a, b) is at least -a, and max(a, b) at least a
            if isinstance(t, Binary) and t.op is (Op.MIN if c < 0 else Op.MAX) and c:
                others = build({u: k for u, k in terms.items() if u is not t}, total)
                if any(self._holds(others + side * c) for side in (t.a, t.b)):
                    return True
        return False

    def _dimension(self, buffer: Buffer, d: int, indices: list[Expr]) -> Span:
        before, after = buffer.layout.halo_of(d)
        whole = Span(const(-before), self.simplify(buffer.shape[d] + (before + after)))
        spans = [self._span(i) for i in dict.fromkeys(indices)]
        if not spans or None in spans:
            return whole
        result = self._union([s for s in spans if s is not None])
        return whole if self.holds(result.size - whole.size) else result

    def _union(self, spans: list[Span]) -> Span:
        first, *rest = spans
        for s in rest:
            gap = self.simplify(s.lo - first.lo)
            ends = self.simplify(first.lo + first.size), self.simplify(s.lo + s.size)
            if isinstance(gap, Const):
                lo = first.lo if gap.value >= 0 else s.lo
            else:
                lo = self.simplify(min_(first.lo, s.lo))
            if isinstance(gap, Const) and isinstance(first.size, Const) and isinstance(s.size, Const):
                size: Expr = const(
                    max(int(first.size.value), int(gap.value) + int(s.size.value)) - min(0, int(gap.value))
                )
            else:
                size = self.simplify(max_(*ends) - lo)
            first = Span(lo, size)
        return first

    def _span(self, e: Expr) -> Span | None:
        """The values of `e` over the inner loops."""
        found = self._bounds(self.simplify(e))
        if found is None:
            return None
        lo, _, slack = found
        size = self.simplify(slack + 1)
        return Span(self.simplify(lo), size if self.holds(size) else max_(size, const(0)))  # a loop may not run at all

    def _bounds(self, e: Expr) -> Bounds | None:
        """The bounds of a simplified expression; None if it is not understood."""
        terms, total = gather(e)
        lo: dict[Expr, int] = {}
        lows: list[tuple[int, Expr]] = []
        highs: list[tuple[int, Expr]] = []
        slack: Expr = const(0)
        for t, c in terms.items():
            if self._is_outer(t):
                lo[t] = lo.get(t, 0) + c
                continue
            found = self._atom(t)
            if found is None:
                return None
            least, most, width = found
            lows.append((c, least if c > 0 else most))
            highs.append((c, most if c > 0 else least))
            slack = slack + width * abs(c)
        rest = build(lo, total)
        return _sum(rest, lows), _sum(rest, highs), slack

    def _atom(self, t: Expr) -> Bounds | None:
        if isinstance(t, Var):
            return self._variable(t)
        if not isinstance(t, Binary):
            return None
        if t.op in (Op.MIN, Op.MAX):
            return self._either(t.op, t.a, t.b)
        if t.op is Op.MUL:
            return self._product(t)
        if isinstance(t.b, Const) and int(t.b.value) > 0:
            return self._divided(t.op, t.a, t.b)
        return None

    def _variable(self, v: Var) -> Bounds | None:
        size = self.sizes.get(v)
        if size is None or not self._is_outer(size):
            given = self.ranges.get(v)
            if given is None or given.hi is None or v not in self.sizes:
                return None
            size = const(given.hi + 1)
        return const(0), size - 1, size - 1

    def _either(self, op: Op, a: Expr, b: Expr) -> Bounds | None:
        """min or max of two: the bounds differ by at most what one of the two can."""
        x, y = self._bounds(a), self._bounds(b)
        if x is None or y is None:
            return None
        f = min_ if op is Op.MIN else max_
        return f(x[0], y[0]), f(x[1], y[1]), max_(x[2], y[2])

    def _product(self, t: Binary) -> Bounds | None:
        parts = factors(t)
        inner = [p for p in parts if not self._is_outer(p)]
        if len(inner) != 1 or not all(self.holds(p) for p in parts if p is not inner[0]):
            return None
        found = self._bounds(inner[0])
        if found is None:
            return None
        scale: Expr = const(1)
        for p in parts:
            scale = scale if p is inner[0] else scale * p
        return found[0] * scale, found[1] * scale, found[2] * scale

    def _divided(self, op: Op, a: Expr, c: Const) -> Bounds | None:
        if op is Op.FLOORMOD:
            return const(0), c - 1, c - 1
        found = self._bounds(a) if op is Op.FLOORDIV else None
        if found is None:
            return None
        lo, hi, slack = found
        exact = self.simplify(floordiv(hi, c) - floordiv(lo, c))
        return floordiv(lo, c), floordiv(hi, c), exact if isinstance(exact, Const) else floordiv(slack + (c - 1), c)

    def _is_outer(self, e: Expr) -> bool:
        return not any(n in self.inner or (isinstance(n, Load) and n.buffer in self.stored) for n in nodes(e))


def _lets(path: Sequence[Stmt]) -> dict[Var, Expr]:
    """The values of the index variables that Lets on `path` bind, in terms of the others."""
    found: dict[Var, Expr] = {}
    for s in path:
        if isinstance(s, Let) and s.var.dtype == dt.index and not has_load(s.value):
            found[s.var] = substitute(s.value, found)
    return found


def _sum(rest: Expr, parts: list[tuple[int, Expr]]) -> Expr:
    for c, e in parts:
        rest = rest + e * c
    return rest
