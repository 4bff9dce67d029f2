"""Index-set splitting: the pieces of an axis cover it and compute what the body computes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from legato.arith.expr import Expr, Select, Var, binary, const, le, lt, select
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


@given(st.integers(1, 9), st.integers(1, 40))
def test_the_last_block(width: int, length: int) -> None:
    """Blocks of which the last may not be full: before it nothing is compared, and what is computed stays."""
    within, blocks = Var("i", lo=0), Axis(Var("b", lo=0), const(-(-length // width)))
    body = select(lt(blocks.var * width + within, const(length)), within + 7, const(0))
    found = last_block([Axis(C, const(EXTENT)), blocks], Axis(within, const(width)), body)
    count = -(-length // width)
    assert (found is None) == (count == 1)
    if found is not None:
        axis, before, last = found
        assert axis is blocks
        assert not any(isinstance(n, Select) for n in nodes(before))
        for b in range(count):
            for i in range(width):
                here = {blocks.var: const(b), within: const(i)}
                value = before if b < count - 1 else last
                assert simplify(substitute(value, here)) is simplify(substitute(body, here))
