"""Proofs, symbolic ranges, linear forms and equations: never wrong, and strong enough for what compilation asks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr, Var, cdiv, const, eq, floordiv, floormod, fresh, le, lt, max_, min_, select
from legato.arith.interval import EVERYTHING, Interval
from legato.arith.linear import build, linear, solve
from legato.arith.parser import parse
from legato.arith.prove import provably_different, prove, prove_all, prove_equal
from legato.arith.ranges import interval_of
from legato.arith.substitute import substitute, variables
from legato.base.errors import InternalError
from tests.arith import strategies

X, Y, Z = Var("x"), Var("y", lo=0), Var("z", lo=1, hi=5)
VALUES = [dict(zip((X, Y, Z), v, strict=True)) for v in itertools.product((-9, -1, 0, 4, 7), (0, 1, 6, 11), (1, 2, 5))]
N, M = fresh("n"), fresh("m")


@settings(max_examples=300)
@given(strategies.conditions([X, Y, Z]))
def test_nothing_false_is_proven(cond: Expr) -> None:
    if prove(cond):
        assert all(evaluate(cond, v) for v in VALUES)


@settings(max_examples=200)
@given(strategies.indices([X, Y, Z]), strategies.indices([X, Y, Z]))
def test_equality_and_difference(a: Expr, b: Expr) -> None:
    pairs = [(evaluate(a, v), evaluate(b, v)) for v in VALUES]
    if prove_equal(a, b):
        assert all(x == y for x, y in pairs)
    if provably_different(a, b):
        assert all(x != y for x, y in pairs)


@settings(max_examples=300)
@given(strategies.indices([X, Y, Z]), st.integers(-5, 5), st.integers(0, 6))
def test_interval_of_holds_every_value(e: Expr, lo: int, width: int) -> None:
    found = interval_of(e, {X: (const(lo), const(lo + width)), Y: (Z, Z + width)})
    if found is None:
        return
    assert not set(variables(*found)) & {X, Y}
    for z, x, dy in itertools.product((1, 3, 5), {lo, lo + width, lo + width // 2}, {0, width, width // 2}):
        values = {X: x, Y: z + dy, Z: z}
        assert evaluate(found[0], values) <= evaluate(e, values) <= evaluate(found[1], values)


@settings(max_examples=200)
@given(strategies.indices([X, Y, Z]))
def test_linear_form(e: Expr) -> None:
    found = linear(e, [X, Y])
    if found is None:
        return
    coefficients, rest = found
    assert not {X, Y} & set(variables(rest, *coefficients.values()))
    for v in VALUES:
        total = evaluate(rest, v) + sum(evaluate(c, v) * v[x] for x, c in coefficients.items())
        assert total == evaluate(e, v)


@settings(max_examples=200)
@given(strategies.indices([X, Y, Z]), strategies.indices([X, Y, Z]))
def test_solutions_solve(a: Expr, b: Expr) -> None:
    found = solve(a, b)
    if found is None:
        return
    for v in VALUES:
        if not found:
            assert evaluate(a, v) == evaluate(b, v)
        for var, e in found.items():
            assert var not in variables(e)
            solved = {**v, var: int(evaluate(e, v))}
            assert evaluate(a, solved) == evaluate(b, solved)


def test_proofs_about_loops() -> None:
    i, j = fresh("i"), fresh("j")
    ranges = {i: Interval(0, 7), j: Interval(0, 15)}
    assert prove(lt(i * 16 + j, 128), ranges)
    assert not prove(lt(i * 16 + j, 127), ranges)
    assert prove(lt(i * N + j, M * N), {}, {i: M, j: N})
    assert prove_all(le(const(0), i), lt(j, 16), ranges=ranges)
    assert prove_all()
    assert prove_equal((N + 1) * (M + 2), N * M + M + N * 2 + 2)
    assert prove_equal(cdiv(N * 8, 8), N)
    assert provably_different(N * 2, M * 2 + 1)
    assert provably_different(N + 1, const(0))
    assert not provably_different(N, M)


def test_ranges_of_a_window() -> None:
    """What a tile of 8 outputs reads of a convolution's rows, with stride 2 and 3 taps."""
    tile, r = fresh("tile"), fresh("r")
    y = fresh("y")
    found = interval_of(y * 2 + r - 1, {y: (tile * 8, tile * 8 + 7), r: (const(0), const(2))})
    assert found is not None
    assert [str(e) for e in found] == ["tile * 16 - 1", "tile * 16 + 15"]


@pytest.mark.parametrize(
    ("text", "lo", "hi"),
    [
        ("n", "n", "n"),
        ("i + n", "n", "n + m - 1"),
        ("3 - i", "4 - m", "3"),
        ("i // 4", "0", "(m - 1) // 4"),
        ("min(i, 4) + max(i, n)", "max(n, 0) + min(n * 0, 4)", "max(n, m - 1) + min(m - 1, 4)"),
        ("i * n + 2", "2", "n * (m - 1) + 2"),
        ("i % 4", "0", "3"),
        ("select(n < 2, i, 7)", "0", "max(m - 1, 7)"),
    ],
)
def test_symbolic_ends(text: str, lo: str, hi: str) -> None:
    n, m, i = fresh("n"), fresh("m", 1), fresh("i")
    found = interval_of(parse(text, [n, m, i]), {i: (const(0), m - 1)})
    assert found is not None
    wanted = [parse(t, [n, m]) for t in (lo, hi)]
    assert [prove_equal(a, b) for a, b in zip(found, wanted, strict=True)] == [True, True]


def test_linear_examples() -> None:
    i, j = fresh("i"), fresh("j")
    assert linear(i * N + j * 3 + M, [i, j]) == ({i: N, j: const(3)}, M)
    assert linear(N + 1, [i]) == ({}, N + 1)
    assert linear(i * j, [i, j]) is None
    assert linear(floordiv(i, const(2)), [i]) is None
    assert linear(i - i + N, [i]) == ({}, N)


def test_solve_examples() -> None:
    assert solve(N + 1, const(4)) == {N: const(3)}
    assert solve(N * 2, M * 4 + 6, [N]) == {N: M * 2 + 3}
    assert solve(N, M) == {M: N}
    assert solve(N, M, [N]) == {N: M}
    assert solve(N * 2, const(3)) is None
    assert solve(N + 1, N) is None
    assert solve(N, N) == {}
    assert solve(N + floormod(N, const(2)), const(4)) is None


def test_substitute_is_simultaneous_and_keeps_what_is_not_there() -> None:
    assert substitute(N + M, {N: M, M: N}) is M + N
    e = select(eq(N, 1), min_(N, M), max_(N, M))
    assert substitute(e, {fresh("q"): N}) is e
    assert variables(e) == (N, M)


def test_evaluate_needs_all_variables() -> None:
    with pytest.raises(InternalError, match="n has no integer value here"):
        evaluate(N + 1, {})


def test_intervals() -> None:
    assert str(Interval(0, None)) == "[0, ∞]"
    assert Interval(0, 4).intersect(Interval(2, None)) == Interval(2, 4)
    assert Interval(0, 4).union(Interval(None, 9)) == Interval(None, 9)
    assert 3 in EVERYTHING
    assert Interval(1, 0).is_empty
    assert Interval(1, 1).is_point


def test_sums_are_written_in_a_fixed_order() -> None:
    assert str(build({M: 2, N: -1}, -3)) == "m * 2 - n - 3"
    assert str(build({N: -2}, 3)) == "3 - n * 2"
    assert str(build({N: -2}, -3)) == "n * -2 - 3"
    assert str(build({N: 0}, 0)) == "0"
