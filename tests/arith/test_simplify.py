"""The simplifier and bounds against evaluation, on random expressions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from legato.arith.bounds import bounds
from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr, Var, const, floormod, fresh, lt, max_, min_, select
from legato.arith.interval import Interval
from legato.arith.parser import parse
from legato.arith.simplify import Simplifier, simplify
from legato.base import dtype as dt
from tests.arith import strategies
from tests.programs.settings import examples
from tests.steps import steps

X, Y, Z = Var("x"), Var("y", lo=0), Var("z", lo=1, hi=6)
NAMES = [X, Y, Z]
exprs = st.one_of(strategies.indices(NAMES), strategies.conditions(NAMES))
ends = st.tuples(st.integers(-12, 12), st.integers(0, 7))


@st.composite
def _boxes(draw: st.DrawFn) -> dict[Var, Interval]:
    """Ranges of some of the variables."""
    ranges = {}
    for v in NAMES:
        if draw(st.booleans()):
            lo, width = draw(ends)
            ranges[v] = Interval(lo, lo + width)
    return ranges


def _samples(ranges: dict[Var, Interval], seed: int) -> list[dict[Var, int]]:
    """Values of the variables within their bounds, corners included."""
    choices = []
    for n, v in enumerate(NAMES):
        box = ranges.get(v, Interval()).intersect(Interval(v.lo, v.hi))
        if box.is_empty:
            return []
        lo = box.lo if box.lo is not None else (-17 if box.hi is None else box.hi - 17)
        hi = box.hi if box.hi is not None else lo + 23
        choices.append(sorted({lo, hi, lo + (seed + 3 * n) % (hi - lo + 1), lo + (seed // 7) % (hi - lo + 1)}))
    return [dict(zip(NAMES, values, strict=True)) for values in itertools.product(*choices)]


@examples(600, fuzz=False)
@given(exprs, _boxes(), st.integers(0, 1000))
def test_value_bounds_and_idempotence(e: Expr, ranges: dict[Var, Interval], seed: int) -> None:
    simple = simplify(e, ranges)
    box, simple_box = bounds(e, ranges), bounds(simple, ranges)
    for values in _samples(ranges, seed):
        value = evaluate(e, values)
        assert evaluate(simple, values) == value, values
        assert value in box
        assert value in simple_box
    assert simplify(simple, ranges) is simple


@examples(300, fuzz=False)
@given(exprs, st.integers(0, 1000))
def test_without_ranges(e: Expr, seed: int) -> None:
    simple = simplify(e)
    for values in _samples({}, seed):
        assert evaluate(simple, values) == evaluate(e, values), values
    assert simplify(simple) is simple


@examples(300, fuzz=False)
@given(exprs, st.integers(1, 6), st.integers(1, 5), st.integers(0, 40))
@example(parse("(y * z + x) // z", NAMES), 4, 3, 7)
def test_limits(e: Expr, n: int, m: int, seed: int) -> None:
    """x < z and y < 2z + x: bounds that are expressions."""
    ranges = {X: Interval(0, None)}
    limits = {X: Z, Y: Z * 2 + X}
    s = Simplifier(ranges, limits)
    simple = s(e)
    assert s(simple) is simple
    assert simplify(simple, ranges, limits) is simple
    for z in (n, m, 1, 6):
        x = seed % z
        for y in {0, 2 * z + x - 1, seed % (2 * z + x)}:
            values = {X: x, Y: y, Z: z}
            assert evaluate(simple, values) == evaluate(e, values), values


II, J, K, N, M = fresh("i"), fresh("j"), fresh("k"), fresh("n"), fresh("m")
BOX = {II: Interval(0, 15), J: Interval(0, 7), K: Interval(0, 3)}


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("j*8 + i*64 + k + 2 - j*8", "i * 64 + k + 2"),
        ("(i*8 + j) // 8", "i"),
        ("(i*8 + j) % 8", "j"),
        ("(i*8 + j) // 16", "i // 2"),
        ("(i*8 + j) % 16", "i % 2 * 8 + j"),
        ("(i*4 + k)//8*8 + (i*4 + k)%8", "i * 4 + k"),
        ("n//4*4 + n%4", "n"),
        ("n//12*12 + n//4%3*4 + n//2%2*2 + n%2", "n"),
        ("n//4%3*8 + n%4*2", "n % 12 * 2"),
        ("n - n//4*4", "n % 4"),
        ("(n*4 + 7) // 4", "n + 1"),
        ("(6*n + 3) // 4", "(n * 3 + 1) // 2"),
        ("(6*n + 3) % 4", "(n + 1) % 2 * 2 + 1"),
        ("(n // 4) // 8", "n // 32"),
        ("(n % 32) // 8", "n // 8 % 4"),
        ("(n % 32) % 8", "n % 8"),
        ("(n + 8) % 4 - n % 4", "0"),
        ("n // -4", "n * -1 // 4"),
        ("n % -4", "n * -1 % 4 * -1"),
        ("n // 0 + n % 0", "0"),
        ("n + (0 - n) % 7", "(n + 6) // 7 * 7"),
        ("n + (7 - n % 7) % 7", "(n + 6) // 7 * 7"),
        ("2*n + m + (2*m - 2*n - 3*m + 1) % 4 - 1", "(n * 2 + m + 2) // 4 * 4"),
        ("(n + n % 2 + 1) // 2", "(n + 1) // 2"),
        ("n - n % 2", "n - n % 2"),
        ("n*m // m * m", "n * m"),
        ("min(n // 4, (n // 4 + 6) // 7 * 7)", "n // 4"),
        ("min(n, m) + max(n - min(n, m), 0)", "n"),
        ("max(n // 3 * 3 + 2, n)", "n // 3 * 3 + 2"),
        ("max(n // 3 * 3 + 1, n)", "max(n, n // 3 * 3 + 1)"),
        ("min(n + 1, n)", "n"),
        ("min(i, 100)", "i"),
        ("max(min(n, 8), min(4, n))", "min(n, 8)"),
        ("min(min(n, m), min(m, 4))", "min(min(n, m), 4)"),
        ("(n + 1) * m - m * (n + 1)", "0"),
        ("(2*n + 2) * (3*m)", "(n + 1) * m * 6"),
        ("3 - n", "3 - n"),
        ("0 - n", "n * -1"),
        ("i < 16", "True"),
        ("i*4 + k < 64", "True"),
        ("i*4 + k < 63", "i * 4 + k < 63"),
        ("16 <= i", "False"),
        ("4*n + 8 < 4*m", "n + 2 < m"),
        ("4*n < 10", "n < 3"),
        ("n - 1 < m", "n <= m"),
        ("4*n == 4*m + 2", "False"),
        ("m - n == 0", "n == m"),
        ("2*n != 2*m + 4", "n != m + 2"),
        ("(n < 8) == False", "7 < n"),
        ("n < 8 and i < 16 and n < 8", "n < 8"),
        ("select(i < 20, n, m)", "n"),
        ("(n < m) == True", "n < m"),
        ("((n == m) == False) == False", "n == m"),
    ],
)
def test_examples(text: str, simple: str) -> None:
    assert str(simplify(parse(text, [II, J, K, N, M]), BOX)) == simple


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("(i*n + j) // n", "i"),
        ("(i*n + j) % n", "j"),
        ("((k*m + i)*n + j) // n % m", "i"),
        ("((k*m + i)*n + j) // n // m", "k"),
        ("((k*m + i)*n + j) // (m*n)", "k"),
        ("i*n + j < m*n", "True"),
        ("min(n - 1, j)", "j"),
        ("(n*m) // n", "m"),
        ("(2*n + 2) // (n + 1)", "2"),
        ("i*8 < 8*m - 7", "True"),
    ],
)
def test_symbolic_extents(text: str, simple: str) -> None:
    n, m = fresh("n", 1), fresh("m", 1)
    i, j, k = fresh("i"), fresh("j"), fresh("k")
    e = parse(text, [i, j, k, n, m])
    assert str(simplify(e, {}, {j: n, i: m})) == simple


def test_other_dtypes_keep_their_operators() -> None:
    x = Var("x", dt.float32)
    e = (x + x) * x - x
    assert simplify(e) is e
    b = Var("b", dt.int8)
    assert simplify(b * const(4, dt.int8) // const(4, dt.int8)) is b * const(4, dt.int8) // const(4, dt.int8)
    assert simplify(select(lt(N, 0), x, x + x)) is x + x


def test_a_deep_expression() -> None:
    e: Expr = N
    for _ in range(3_000):
        e = min_(e + 1, M) - max_(M, floormod(e, const(7)))
    simple = simplify(e)
    assert simplify(simple) is simple
    total: Expr = const(0)
    for n in range(10_000):
        total = total + N * n
    assert str(simplify(total)) == f"n * {sum(range(10_000))}"


def test_it_is_fast() -> None:
    e = parse("(i*8 + j)//8*64 + k*4 + (i*8 + j)%8", [II, J, K])
    assert steps(lambda: simplify(e, BOX)) < 700
