"""Every dim has one place that brings it, and what equalities say of it is said of its new names as well."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir._dims import free_dims
from legato.ir.expr import Function, Match
from legato.ir.let import chain
from legato.ir.module import Module
from legato.ir.scope import pattern_vars, post_order
from legato.transform.separate_dims import SeparateDims
from legato.transform.to_a_normal import ToANormal

HEAD = """#[version = "0.0.5"]
type Box { Box(Tensor[(?, 4), float32]) }
"""
ESCAPES = (
    HEAD
    + """def @main(%x: Tensor[(n, 4), float32]) {
  let %b = Box(%x);
  let %y = match (%b) { Box(%z) => %z };
  let %w = match (%b) { Box(%z) => let %v = concatenate((%z, %y)); %v };
  let %s = sum(%w);
  %s
}"""
)
SUM = (
    HEAD
    + """def @main(%x: Tensor[(n, 4), float32], %y: Tensor[(m, 4), float32]) {
  let %a = Box(%x);
  let %b = Box(%y);
  let %z = match (%a) { Box(%v) => match (%b) { Box(%w) => let %u = %v + %w; %u } };
  let %s = sum(%z);
  %s
}"""
)


def separated(text: str) -> Module:
    return SeparateDims()(ToANormal()(infer(legato.parse(text))))


def places(func: Function) -> Counter[object]:
    """How many bindings and patterns bring each dim."""
    found: Counter[object] = Counter()
    known = set(func.type_params)
    blocks = [(func.body, known)]
    while blocks:
        body, known = blocks.pop()
        for var, value in chain(body)[0]:
            assert var.ty is not None
            if isinstance(value, Match):
                for clause in value.clauses:
                    own = {d for v in pattern_vars(clause.pattern) if v.ty for d in free_dims(v.ty)} - known
                    found.update(own)
                    blocks.append((clause.body, known | own))
            new = set(free_dims(var.ty)) - known
            found.update(new)
            known = known | new
    return found


@pytest.mark.parametrize("text", [ESCAPES, SUM])
def test_each_dim_has_one_place(text: str) -> None:
    new = separated(text)["main"]
    assert isinstance(new, Function)
    assert set(places(new).values()) == {1}
    old = ToANormal()(infer(legato.parse(text)))["main"]
    assert isinstance(old, Function)
    assert max(places(old).values()) > 1


def test_the_meaning_stays() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert evaluate(separated(ESCAPES), [x]) == evaluate(infer(legato.parse(ESCAPES)), [x]) == 56


def test_equalities_hold_under_all_names() -> None:
    exe, x = legato.compile(legato.parse(SUM)), np.ones((3, 4), np.float32)
    assert exe(x, x) == 24
    for run in (exe, lambda *args: evaluate(separated(SUM), args)):
        with pytest.raises(RunError, match="must be equal"):
            run(x, x[:2])


def test_what_brings_no_dims_is_left_alone() -> None:
    mod = ToANormal()(infer(legato.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(n,), float32]) { tanh(%x) }')))
    assert SeparateDims()(mod) is mod
    assert not any(isinstance(n, Match) for _, f in mod.graph_functions() for n in post_order(f.body))
