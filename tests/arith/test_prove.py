"""Proofs and equations: never wrong, and strong enough for what compilation asks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given

from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr, Var, cdiv, const, eq, floordiv, floormod, fresh, lt, max_, min_, select
from legato.arith.interval import Interval
from legato.arith.linear import build, divide, solve
from legato.arith.prove import provably_different, prove, prove_equal
from legato.arith.substitute import substitute, variables
from legato.base.errors import InternalError
from tests.arith import strategies
from tests.programs.settings import examples

X, Y, Z = Var("x"), Var("y", lo=0), Var("z", lo=1, hi=5)
VALUES = [dict(zip((X, Y, Z), v, strict=True)) for v in itertools.product((-9, -1, 0, 4, 7), (0, 1, 6, 11), (1, 2, 5))]
N, M = fresh("n"), fresh("m")


@examples(300, fuzz=False)
@given(strategies.conditions([X, Y, Z]))
def test_nothing_false_is_proven(cond: Expr) -> None:
    if prove(cond):
        assert all(evaluate(cond, v) for v in VALUES)


@examples(200, fuzz=False)
@given(strategies.indices([X, Y, Z]), strategies.indices([X, Y, Z]))
def test_equality_and_difference(a: Expr, b: Expr) -> None:
    pairs = [(evaluate(a, v), evaluate(b, v)) for v in VALUES]
    if prove_equal(a, b):
        assert all(x == y for x, y in pairs)
    if provably_different(a, b):
        assert all(x != y for x, y in pairs)


@examples(200, fuzz=False)
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


@examples(200, fuzz=False)
@given(strategies.indices([X, Y, Z]), strategies.indices([X, Y, Z]))
def test_a_quotient_is_the_only_candidate(a: Expr, b: Expr) -> None:
    found = divide(a, b, [Z])
    if found is None:
        return
    var, e = found
    assert var is Z
    assert Z not in variables(e)
    for v in VALUES:
        if evaluate(a, v) == evaluate(b, v):
            assert v[Z] == evaluate(e, v)


def test_proofs_about_loops() -> None:
    i, j = fresh("i"), fresh("j")
    ranges = {i: Interval(0, 7), j: Interval(0, 15)}
    assert prove(lt(i * 16 + j, 128), ranges)
    assert not prove(lt(i * 16 + j, 127), ranges)
    assert prove(lt(i * N + j, M * N), {}, {i: M, j: N})
    assert prove_equal((N + 1) * (M + 2), N * M + M + N * 2 + 2)
    assert prove_equal(cdiv(N * 8, 8), N)
    assert provably_different(N * 2, M * 2 + 1)
    assert provably_different(N + 1, const(0))
    assert not provably_different(N, M)


def test_divide_examples() -> None:
    assert divide(N * 2, M, [N]) == (N, floordiv(M, const(2)))
    assert divide(const(7), N * -3 + 1, [N]) == (N, const(-2))
    assert divide(N * 2, M * 3, [N, M]) is None
    assert divide(N * N, const(4), [N]) is None


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
    assert Interval(1, 0).is_empty
    assert Interval(1, 1).is_point


def test_sums_are_written_in_a_fixed_order() -> None:
    assert str(build({M: 2, N: -1}, -3)) == "m * 2 - n - 3"
    assert str(build({N: -2}, 3)) == "3 - n * 2"
    assert str(build({N: -2}, -3)) == "n * -2 - 3"
    assert str(build({N: 0}, 0)) == "0"
