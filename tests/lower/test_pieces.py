"""Index-set splitting: the pieces of an axis cover it and compute what the body computes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Const, Expr, Select, Var, binary, cdiv, const, floormod, land, le, lt, select
from legato.arith.expr import Op as Arith
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, substitute
from legato.lower.rules.pieces import last_block, pieces
from legato.te.tensor import Axis

C = Var("c", lo=0)
EXTENT = 12
literals = st.integers(-4, EXTENT + 4).map(const)
compared = st.builds(lambda k, shift: C + k if shift else C, literals, st.booleans())
conditions = st.recursive(
    st.builds(lambda f, a, b, turned: f(b, a) if turned else f(a, b),
              st.sampled_from((lt, le)), compared, literals, st.booleans()),
    lambda inner: st.builds(lambda a, b, op: binary(op, a, b), inner, inner, st.sampled_from((Arith.AND, Arith.OR))),
    max_leaves=3,
)  # fmt: skip
bodies = st.recursive(
    st.builds(lambda k: C * k, literals), lambda inner: st.builds(select, conditions, inner, inner), max_leaves=8
)


@given(bodies)
def test_pieces_compute_the_body(body: Expr) -> None:
    found = pieces(Axis(C, const(EXTENT)), body)
    assert [lo for lo, _, _ in found[1:]] == [hi for _, hi, _ in found[:-1]]
    assert (found[0][0], found[-1][1]) == (0, EXTENT)
    for lo, hi, value in found:
        assert not any(isinstance(n, Select) for n in nodes(value))
        for at in range(lo, hi):
            here = {C: const(at)}
            assert simplify(substitute(value, here)) is simplify(substitute(body, here))


def test_conditions_on_other_variables_stay() -> None:
    other = Var("d", lo=0)
    body = select(lt(other, const(3)), C, C + 1)
    assert pieces(Axis(C, const(EXTENT)), body) == [(0, EXTENT, body)]


@given(st.integers(1, 9), st.integers(1, 40), st.booleans())
def test_the_last_block(width: int, length: int, is_symbolic: bool) -> None:
    """Blocks of which the last may not be full: before it nothing is compared, and what is computed stays."""
    size: Expr = Var("n", lo=0) if is_symbolic else const(length)
    within, blocks = Var("i", lo=0), Axis(Var("b", lo=0), simplify(cdiv(size, const(width))))
    body = select(lt(blocks.var * width + within, size), within + 7, const(0))
    found = last_block([Axis(C, const(EXTENT)), blocks], Axis(within, const(width)), body)
    count = -(-length // width)
    assert (found is None) == (count == 1 and not is_symbolic)
    if found is not None:
        is_before, before, last = found
        assert not any(isinstance(n, Select) for n in nodes(before))
        for b in range(count):
            for i in range(width):
                here = {blocks.var: const(b), within: const(i)}
                here |= {size: const(length)} if isinstance(size, Var) else {}
                truth = simplify(substitute(is_before, here))
                assert isinstance(truth, Const)
                value = before if truth.value else last
                assert simplify(substitute(value, here)) is simplify(substitute(body, here))
                assert b == count - 1 or value is before


def test_comparisons_that_do_not_grow_along_a_block_stay_open() -> None:
    n, within, blocks = Var("n", lo=0), Var("i", lo=0), Var("b", lo=0)
    axes = [Axis(blocks, cdiv(n, const(4)))]
    two = land(lt(blocks * 4 + within, n), lt(blocks * 4 + within, n * 2))
    assert last_block(axes, Axis(within, const(4)), select(two, within, const(0))) is None
    at_most = last_block(axes, Axis(within, const(4)), select(le(blocks * 4 + within, n), within, const(0)))
    assert at_most is not None
    assert at_most[0] is simplify(le(blocks * 4 + 3, n))
    for there in (blocks * 4 - within, floormod(blocks * 4 + within, const(3)), within * blocks):
        assert last_block(axes, Axis(within, const(4)), select(lt(there, n), within, const(0))) is None
