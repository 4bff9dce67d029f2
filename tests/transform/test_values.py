"""Functions that are values, written out as functions."""

from __future__ import annotations

import numpy as np
import pytest

from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.op import Op
from legato.ir.visit import nodes
from legato.ops import table as operators
from legato.prelude import parse
from legato.transform._values import written_out
from legato.transform.flatten_match import FlattenMatch
from tests.programs.values import same

PROGRAM = """#[version = "0.0.5"]
def @pick(%xs: List[int32]) -> fn (float32) -> float32 {
  match (%xs) { Cons(_, Cons(_, _)) => negative, Cons(_, Nil) => exp, %none => tanh }
}
def @main(%x: float32) { (@pick(Cons(1, Cons(2, Nil)))(%x), @pick(Cons(1, Nil))(%x), @pick(Nil)(%x)) }
"""


@pytest.mark.parametrize("flat", [False, True])
def test_operators_that_branches_give(flat: bool) -> None:
    """Also behind a let: a flat match binds the name of a clause around the operator, which has no type."""
    mod = infer(parse(PROGRAM, ops=operators()))
    new = FlattenMatch()(mod) if flat else mod
    written = new.with_functions({gv: written_out(f, new) for gv, f in new.graph_functions()})
    calls = [n for _, f in written.graph_functions() for n in nodes(f) if isinstance(n, Op)]
    assert {op.name for op in calls} == {"negative", "exp", "tanh"}
    typed = infer(written)
    x = np.asarray(0.5, np.float32)
    assert same(evaluate(typed, (x,)), evaluate(mod, (x,)))
    assert all(written_out(f, typed) is f for _, f in typed.graph_functions())
