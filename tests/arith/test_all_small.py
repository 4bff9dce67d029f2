"""All small inputs, instead of samples: chains of operations by literals through the simplifier, bounds and proofs."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from legato.arith.bounds import bounds
from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr, Var, const, eq, lt, max_, min_
from legato.arith.interval import Interval
from legato.arith.linear import divide, solve
from legato.arith.prove import provably_different, prove_equal
from legato.arith.simplify import simplify

X, Y = Var("x"), Var("y", lo=0, hi=3)
VALUES = range(-9, 17)
DIVISORS = (-3, -1, 2, 3, 4, 8)
Step = tuple[str, Callable[[Expr], Expr], Callable[[int], int]]
STEPS: tuple[Step, ...] = (
    *((f"+{c}", lambda e, c=c: e + c, lambda n, c=c: n + c) for c in (-1, 1, 3)),
    *((f"*{c}", lambda e, c=c: e * c, lambda n, c=c: n * c) for c in (-1, 2, 3)),
    *((f"//{c}", lambda e, c=c: e // c, lambda n, c=c: n // c) for c in DIVISORS),
    *((f"%{c}", lambda e, c=c: e % c, lambda n, c=c: n % c) for c in DIVISORS),
)
ENDS: tuple[Step, ...] = (
    ("min 2", lambda e: min_(e, const(2)), lambda n: min(n, 2)),
    ("max 2", lambda e: max_(e, const(2)), lambda n: max(n, 2)),
    ("< 2", lambda e: lt(e, const(2)), lambda n: n < 2),
    ("== 2", lambda e: eq(e, const(2)), lambda n: n == 2),
)


@pytest.mark.parametrize("first", STEPS, ids=lambda s: s[0])
def test_chains_of_three_operations(first: Step) -> None:
    """x op a op b op c is what its simplified form is, and within its bounds, for every x; so within a range of x."""
    for second, third in itertools.product(STEPS, (*STEPS, *ENDS)):
        chain = (first, second, third)
        e: Expr = X
        for _, symbol, _ in chain:
            e = symbol(e)
        for values in (VALUES, range(3)):
            box = {X: Interval(values[0], values[-1])} if len(values) == 3 else {}
            simple, interval = simplify(e, box), bounds(e, box)
            for x in values:
                wanted = x
                for _, _, number in chain:
                    wanted = number(wanted)
                assert evaluate(simple, {X: x}) == wanted, (chain, x, simple)
                assert wanted in interval, (chain, x, interval)


@pytest.mark.parametrize("k", [2, 3, 4, 6])
def test_divisions_of_sums(k: int) -> None:
    """(a·x + b·y + c) // k and % k, and of these again, with y from 0 to 3."""
    for a, b, c in itertools.product((1, 2, 4, 6), (-1, 1, 2, 3), (-1, 0, 2)):
        inner = X * a + Y * b + c
        q, r = inner // k, inner % k
        forms = [q, r, q * k + r, inner - q * k, q // 2, q % 2, r // 2, r % 2]
        simple = [simplify(e) for e in forms]
        for x, y in itertools.product(range(-3, 6), range(4)):
            n = a * x + b * y + c
            wanted = [n // k, n % k, n, n % k, n // k // 2, n // k % 2, n % k // 2, n % k % 2]
            assert [evaluate(e, {X: x, Y: y}) for e in simple] == wanted, (a, b, c, x, y)


def test_equations() -> None:
    """a·x + b = c·y + d: solved where a solution is given, and decided rightly where it is decided."""
    for a, b, c, d in itertools.product((1, 2, 3), (-2, 0, 1), (0, 1, 2, 4), (-1, 0, 3)):
        left, right = X * a + b, Y * c + d
        found, quotient = solve(left, right, [X]), divide(left, right, [X])
        pairs = [(x, y) for x, y in itertools.product(range(-12, 18), range(4)) if a * x + b == c * y + d]
        assert not prove_equal(left, right)
        assert not (provably_different(left, right) and pairs)
        assert quotient is not None
        for y in range(4):
            exact = [x for x, other in pairs if other == y]
            if found is not None:
                assert exact == [evaluate(found[X], {Y: y})]
            assert exact in ([], [evaluate(quotient[1], {Y: y})])
