"""The simplifier of index expressions and of conditions over them.

The result is a sum in normal form (see `linear`) whose atoms are simplified: products are flattened, divisions are
split by divisibility and bounds (`division`), min and max are decided by bounds or flattened, comparisons are decided
by bounds or written with the common terms cancelled (`compare`). Expressions of other dtypes keep their operators,
their index parts are simplified. Simplifying twice changes nothing, and what is simple already stays the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import lcm

from legato.arith import compare, division
from legato.arith.bounds import Bounds
from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, binary, const, select
from legato.arith.fold import COMPARISONS
from legato.arith.interval import Interval
from legato.arith.linear import Sum, Terms, add_scaled, atom_key, bottom_up, build, content, factors, gather, product
from legato.arith.poly import expand
from legato.base import dtype as dt
from legato.base.errors import InternalError

__all__ = ["Simplifier", "simplify"]

_ROUNDS = 12  # more than any expression has needed; the rules have no cycles
_MANY = 1 << 15  # expressions that are remembered
_FEW = 8  # operands of min and max that are compared with each other


def simplify(e: Expr, ranges: Mapping[Var, Interval] | None = None, limits: Mapping[Var, Expr] | None = None) -> Expr:
    """`e` in normal form, equal to it for all values of its variables within `ranges` and their own bounds.

    `limits` gives exclusive upper bounds that are expressions: the extents of loops over symbolic dims.
    """
    if type(e) is Const:
        return e
    return Simplifier(ranges, limits)(e) if ranges or limits else _simplify(e)


def _simplify(e: Expr) -> Expr:
    global _shared
    if _shared.size > _MANY:
        _shared = Simplifier()
    return _shared(e)


class Simplifier:
    """A simplifier under fixed ranges that remembers what it has done; for many expressions of one scope."""

    __slots__ = ("_done", "_memo", "bounds", "limits")

    def __init__(self, ranges: Mapping[Var, Interval] | None = None, limits: Mapping[Var, Expr] | None = None) -> None:
        self.bounds = Bounds(ranges)
        self.limits = limits or {}
        self._memo: dict[Expr, Expr] = {}
        self._done: dict[Expr, Expr] = {}

    def __call__(self, e: Expr) -> Expr:
        """`e` in normal form."""
        found = self._done.get(e)
        if found is not None:
            return found
        old = e
        for _ in range(_ROUNDS):
            new = bottom_up(old, self._memo, self._visit)
            if new is old:
                self._done[e] = self._done[new] = new
                return new
            old = new
        raise InternalError(f"the simplifier does not come to an end on {e}")

    @property
    def size(self) -> int:
        """How many expressions it remembers."""
        return len(self._memo)

    # What rules ask for ------------------------------------------------------------------------------------------

    def nonnegative(self, terms: Terms, total: int) -> bool:
        """True if the sum is provably at least 0."""
        lo = self.bounds.of_sum(terms, total)[0]
        if lo is not None and lo >= 0:
            return True
        return bool(self.limits) and self._nonnegative_by_limits(terms, total)

    def positive(self, e: Expr) -> bool:
        """True if `e` is provably at least 1."""
        terms, total = gather(e)
        return self.nonnegative(terms, total - 1)

    def within(self, terms: Terms, total: int, end: Expr) -> bool:
        """True if 0 <= sum < end, provably."""
        if not self.nonnegative(terms, total):
            return False
        gap, offset = gather(end)
        add_scaled(gap, terms, -1)
        return self.nonnegative(gap, offset - total - 1)

    def _nonnegative_by_limits(self, terms: Terms, total: int) -> bool:
        """Replaces variables that lower the sum by their largest value, youngest first, until bounds decide."""
        for _ in range(len(self.limits) + 1):
            terms, total = expand(build(terms, total))
            lo = self.bounds.of_sum(terms, total)[0]
            if lo is not None and lo >= 0:
                return True
            found = self._lowering(terms)
            if found is None:
                return False
            t, var = found
            c = terms.pop(t)
            others = factors(t)
            others.remove(var)
            extra, offset = gather(product([*others, self.limits[var] - 1]) if others else self.limits[var] - 1)
            add_scaled(terms, extra, c)
            total += c * offset
        return False

    def _lowering(self, terms: Terms) -> tuple[Expr, Var] | None:
        """A term that lowers the sum through a variable that has a limit, and the youngest such variable."""
        best: tuple[Expr, Var] | None = None
        for t, c in terms.items():
            if c >= 0:
                continue
            parts = factors(t)
            for v in parts:
                if isinstance(v, Var) and v in self.limits and (best is None or v.uid > best[1].uid):
                    signs = [self.bounds.of(p)[0] for p in parts if p is not v]
                    if parts.count(v) == 1 and all(lo is not None and lo >= 0 for lo in signs):
                        best = (t, v)
        return best

    # The visitor -------------------------------------------------------------------------------------------------

    def _visit(self, e: Expr, parts: Sum | None) -> Expr:
        if parts is not None:
            return self._sum(*parts)
        kids = e.children()
        if not kids:
            return self._leaf(e)
        memo = self._memo
        if type(e) is Binary:
            return self._binary(e.op, memo[e.a], memo[e.b])
        if type(e) is Select:
            return select(memo[e.cond], memo[e.a], memo[e.b])
        new = tuple([memo[k] for k in kids])
        return e if new == kids else e.with_children(new)

    def _leaf(self, e: Expr) -> Expr:
        if type(e) is not Var or e.dtype is not dt.index:
            return e
        lo, hi = self.bounds.of(e)
        return const(lo) if lo is not None and lo == hi else e

    def _sum(self, terms: Terms, total: int) -> Expr:
        out: Terms = {}
        divisions = False
        for t, c in terms.items():
            s = self._memo[t]
            if s is t:
                out[t] = out.get(t, 0) + c
                divisions = divisions or (type(t) is Binary and (t.op is Op.FLOORDIV or t.op is Op.FLOORMOD))
            else:
                inner, offset = gather(s)
                add_scaled(out, inner, c)
                total += c * offset
        if divisions:
            total += division.join(self, out)
        return build(out, total)

    def _binary(self, op: Op, a: Expr, b: Expr) -> Expr:
        if op in COMPARISONS:
            return compare.comparison(self, op, a, b) if a.dtype is dt.index else compare.logic(op, a, b)
        if a.dtype.is_bool:
            return compare.logic(op, a, b)
        rule = _RULES.get(op) if a.dtype is dt.index else None
        return binary(op, a, b) if rule is None else rule(self, a, b)


def multiply(s: Simplifier, a: Expr, b: Expr) -> Expr:
    """a · b for simplified operands, as content times the product of what remains."""
    coefficient = 1
    parts: list[Expr] = []
    for x in (a, b):
        terms, total = gather(x)
        if not terms:
            coefficient *= total
            continue
        g = content(terms) if total == 0 else content({**terms, const(1): total})
        if total == 0 and len(terms) == 1:
            g = next(iter(terms.values()))  # with its sign
        coefficient *= g
        parts += factors(build({t: c // g for t, c in terms.items()}, total // g))
    if not coefficient or not parts:
        return const(coefficient)
    parts = _without_exact_quotients(parts)
    whole = product(parts)
    return build({whole: coefficient}) if len(parts) > 1 else build(*_scaled_sum(whole, coefficient))


def _without_exact_quotients(parts: list[Expr]) -> list[Expr]:
    """The factors of a product in which (x·y // y)·y is x·y."""
    for q in parts:
        if type(q) is Binary and q.op is Op.FLOORDIV and type(q.b) is not Const:
            divisor = factors(q.b)
            others = division.without([p for p in parts if p is not q], divisor)
            if others is not None and division.without(factors(q.a), divisor) is not None:
                return [*others, *[p for p in parts if p is q][1:], *factors(q.a)]
    return parts


def _scaled_sum(e: Expr, c: int) -> Sum:
    terms, total = gather(e)
    return {t: c * k for t, k in terms.items()}, c * total


def extremum(op: Op) -> Callable[[Simplifier, Expr, Expr], Expr]:
    """The rule of min or max: nested ones are flattened, operands that cannot win are dropped."""

    def rule(s: Simplifier, a: Expr, b: Expr) -> Expr:
        kept: list[Expr] = []
        for x in [*_operands(op, a), *_operands(op, b)]:
            if x in kept or (len(kept) < _FEW and any(_beats(s, op, y, x) for y in kept)):
                continue
            kept = [y for y in kept if len(kept) >= _FEW or not _beats(s, op, x, y)]
            kept.append(x)
        kept.sort(key=lambda x: (type(x) is Const, atom_key(x)))
        out = kept[0]
        for x in kept[1:]:
            out = binary(op, out, x)
        return out

    return rule


def _operands(op: Op, e: Expr) -> list[Expr]:
    out: list[Expr] = []
    stack = [e]
    while stack:
        node = stack.pop()
        if type(node) is Binary and node.op is op:
            stack += (node.b, node.a)
        else:
            out.append(node)
    return out


def _beats(s: Simplifier, op: Op, a: Expr, b: Expr) -> bool:
    """True if min(a, b) (or max) is always a."""
    return _at_most(s, a, b, 2) if op is Op.MIN else _at_most(s, b, a, 2)


def _at_most(s: Simplifier, low: Expr, high: Expr, depth: int) -> bool:
    """True if low <= high, provably; looks `depth` levels into min and max."""
    terms, total = gather(high)
    other, offset = gather(low)
    add_scaled(terms, other, -1)
    return _is_nonnegative(s, {t: c for t, c in terms.items() if c}, total - offset, depth)


def _is_nonnegative(s: Simplifier, terms: Terms, total: int, depth: int) -> bool:
    if s.nonnegative(terms, total) or s.nonnegative(*_below_quotients(terms, total)):
        return True
    if not depth:
        return False
    for t, c in terms.items():
        if type(t) is Binary and (t.op is Op.MIN or t.op is Op.MAX):
            enough = any if (t.op is Op.MIN) == (c < 0) else all  # -min(a, b) is at least -a
            if enough(_is_nonnegative(s, *_with(terms, total, t, x), depth - 1) for x in (t.a, t.b)):
                return True
    return False


def _with(terms: Terms, total: int, old: Expr, new: Expr) -> Sum:
    """The sum with `new` for its term `old`."""
    out = dict(terms)
    c = out.pop(old)
    inner, offset = gather(new)
    add_scaled(out, inner, c)
    return {t: k for t, k in out.items() if k}, total + c * offset


def _below_quotients(terms: Terms, total: int) -> Sum:
    """A sum without quotients by literals that is at least 0 only where the given one is: for x // k, of which
    x - k + 1 <= k·(x // k) <= x, these multiples of k."""
    quotients: dict[Expr, tuple[Expr, int]] = {}
    for t in terms:
        if type(t) is Binary and t.op is Op.FLOORDIV and type(t.b) is Const:
            quotients[t] = t.a, int(t.b.value)
    divisors = [k for _, k in quotients.values()]
    if not divisors or min(divisors) <= 0:
        return terms, total
    scale = lcm(*divisors)
    out: Terms = {}
    total = total * scale + scale - 1  # of an integer: it is at least 0 where the multiple is above -scale
    for t, c in terms.items():
        x, k = quotients.get(t, (t, 1))
        inner, offset = ({t: 1}, 0) if x is t else gather(x)
        share = c * scale // k
        add_scaled(out, inner, share)
        total += share * (offset - (k - 1 if c > 0 else 0))
    return {t: c for t, c in out.items() if c}, total


_RULES: Mapping[Op, Callable[[Simplifier, Expr, Expr], Expr]] = {
    Op.MUL: multiply,
    Op.FLOORDIV: division.floordiv,
    Op.FLOORMOD: division.floormod,
    Op.MIN: extremum(Op.MIN),
    Op.MAX: extremum(Op.MAX),
}
_shared = Simplifier()  # of what has no ranges: the formulas of a program are made of the same parts
