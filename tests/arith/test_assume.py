"""Proofs under assumptions: never wrong, and strong enough for the subscripts of operators."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from legato.arith.assume import Assumptions, facts_of
from legato.arith.evaluate import evaluate
from legato.arith.expr import Expr, Var, cdiv, const, ge, land, le, lt, max_, min_, select
from tests.arith import strategies
from tests.programs.settings import examples

N, M = Var("n", lo=0), Var("m", lo=0)
K, J = Var("i", lo=0), Var("j", lo=0)
DIMS = [dict(zip((N, M), v, strict=True)) for v in itertools.product((0, 1, 2, 3, 7), (0, 1, 4, 5))]
EXTENTS = [N, M, N * 3, N + M, max_(N - 2, const(0)), cdiv(N, 2), min_(N, M), const(4)]


@examples(600, fuzz=False)
@given(
    st.sampled_from(EXTENTS),
    st.sampled_from(EXTENTS),
    strategies.conditions([K, J, N, M]),
    strategies.indices([K, J, N, M]),
)
def test_nothing_false_is_proven(outer: Expr, inner: Expr, guard: Expr, e: Expr) -> None:
    known = Assumptions({K: outer, J: inner}, facts_of(guard))
    if not known.nonnegative(e):
        return
    for dims in DIMS:
        for i, j in itertools.product(range(int(evaluate(outer, dims))), range(int(evaluate(inner, dims)))):
            at = {**dims, K: i, J: j}
            if evaluate(guard, at):
                assert evaluate(e, at) >= 0


@examples(300, fuzz=False)
@given(strategies.conditions([K, J, N, M]), st.booleans())
def test_facts_follow_from_their_condition(cond: Expr, holds: bool) -> None:
    found = list(facts_of(cond, holds))
    for dims in DIMS:
        for i, j in itertools.product(range(4), range(3)):
            at = {**dims, K: i, J: j}
            if bool(evaluate(cond, at)) == holds:
                assert all(evaluate(f, at) >= 0 for f in found)


def test_subscripts_of_operators() -> None:
    known = Assumptions({K: N * 4, J: M})
    assert known.below(K // 4, N)
    assert known.below(K * M + J, N * M * 4)
    assert known.below((K * M + J) // M // 4, N)
    assert known.nonnegative(max_(min_(K - 3, M - 1), const(0)))
    assert known.below(max_(min_(K - 3, M - 1), const(0)), M)
    assert not known.below(K // 4 + 1, N)
    assert not known.below(K // 3, N)


def test_guards_and_constraints_count() -> None:
    guard = land(le(const(2), K), lt(K, M + 2))
    assert Assumptions({K: N}, facts_of(guard)).nonnegative(K - 2)
    assert Assumptions({K: N}, facts_of(guard)).below(K - 2, M)
    assert not Assumptions({K: N}).below(K, M)
    assert Assumptions({K: N}, facts_of(ge(M, N))).below(K, M)
    assert Assumptions({}, [N - max_(N, const(3))]).nonnegative(N - 3)
    mirrored = select(lt(K, N), K, N * 2 - K - 1)
    assert Assumptions({K: N * 2}).below(mirrored, N)
    assert Assumptions({K: N * 2}).nonnegative(mirrored)
