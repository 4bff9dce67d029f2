"""Casts: new dims are told by types, sure casts are gone, all others check what they say, when they are reached."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.expr import MatchCast
from legato.ir.scope import post_order
from legato.transform.resolve_casts import ResolveCasts
from tests.graphs import leaves

HEAD = '#[version = "0.0.5"]\n'
ROWS = """def @main(%x: Tensor[(n, 4), float32]) {
  let %y = match_cast(%x, Tensor[(3 * k, m), float32]);
  (reshape(%y, newshape=[3, -1, 4]), shape[k, m + 1])
}"""
GUARD = """def @main(%c: bool, %x: Tensor[(n,), float32]) {
  if (%c) { let %y = match_cast(%x, Tensor[(2,), float32]); sum(%y) } else { 0f }
}"""
INSIDE = """
type List[A] { Cons(A, List[A]), Nil }
def @f(%x: Tensor[(n, m), float32]) {
  let %y = match_cast(%x, Tensor[(k, k), float32]);
  match (Cons(%y, Nil)) { Cons(%z, _) => sum(multiply(%z, transpose(%y))), Nil => 0f }
}
def @main(%x: Tensor[(n, m), float32]) { @f(%x) }"""

CHECKS = {
    "branch": """def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {
  let %u: Tensor[(k,), float32] = if (sum(%x) > 0f) { %x } else { concatenate((%x, %x)) };
  (%u, match_cast(%y, Tensor[(k,), float32]))
}""",
    "pattern": """
type Box { Box(Tensor[(?,), float32]) }
def @main(%x: Tensor[(n,), float32], %y: Tensor[(m,), float32]) {
  match (Box(%x)) { Box(%v) => let %u: Tensor[(k,), float32] = %v; (%u, match_cast(%y, Tensor[(k,), float32])) }
}""",
}


def ones(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def flat(value: Any) -> list[Any]:
    """The arrays and numbers in `value`, as numbers."""
    return [np.asarray(x).tolist() for x in leaves(value)]


@pytest.mark.parametrize(("text", "good", "bad"), [
    (ROWS, [(ones(6, 4),), (ones(3, 4),)], [(ones(7, 4),)]),
    (GUARD, [(np.asarray(True), ones(2)), (np.asarray(False), ones(5))], [(np.asarray(True), ones(5))]),
    (INSIDE, [(ones(3, 3),), (ones(1, 1),)], [(ones(3, 2),)]),
])  # fmt: skip
def test_casts_mean_the_same(text: str, good: list[Any], bad: list[Any]) -> None:
    mod = infer(legato.parse(HEAD + text))
    resolved, exe = ResolveCasts()(mod), legato.compile(mod)
    for args in good:
        wanted = evaluate(mod, args)
        assert flat(evaluate(resolved, args)) == flat(wanted)
        assert flat(exe(*args)) == flat(wanted)
    for args in bad:
        with pytest.raises(RunError, match="match_cast"):
            evaluate(resolved, args)
        with pytest.raises(RunError, match=r"match_cast at .*: a dim is .*, wanted"):
            exe(*args)


@pytest.mark.parametrize("text", CHECKS.values(), ids=CHECKS)
def test_a_cast_to_a_dim_that_is_known_is_a_check(text: str) -> None:
    mod = infer(legato.parse(HEAD + text))
    resolved = ResolveCasts()(mod)
    assert flat(evaluate(resolved, (ones(3), ones(3)))) == flat(evaluate(mod, (ones(3), ones(3))))
    for program in (mod, resolved):
        with pytest.raises(RunError, match="match_cast: dim 0 is 5, wanted k = 3"):
            evaluate(program, (ones(3), ones(5)))
    exe = legato.compile(mod)
    assert flat(exe(ones(3), ones(3))) == flat(evaluate(mod, (ones(3), ones(3))))
    with pytest.raises(RunError, match=r"match_cast at .*: a dim is m, wanted k"):
        exe(ones(3), ones(5))


def test_a_cast_that_cannot_fail_is_gone() -> None:
    text = "def @main(%x: Tensor[(n, 4), float32]) { let %y = match_cast(%x, Tensor[(k, m), float32]); tanh(%y) }"
    resolved = ResolveCasts()(infer(legato.parse(HEAD + text)))
    func = next(func for _, func in resolved.graph_functions())
    assert not any(isinstance(node, MatchCast) for node in post_order(func.body))
    assert "k" not in str(resolved).split("{")[1]


def test_what_a_branch_demands_of_its_own_dims_is_asked_where_it_is_taken() -> None:
    mod = infer(
        legato.parse(
            HEAD
            + """def @main(%c: bool, %x: Tensor[(n, m), float32]) {
  if (%c) { let %y = match_cast(%x, Tensor[(k, l), float32]); sum(squeeze(%y, axis=[0])) } else { 1f }
}"""
        )
    )
    resolved, exe = ResolveCasts()(mod), legato.compile(mod)
    yes, no = np.asarray(True), np.asarray(False)
    for given in ((yes, ones(1, 3)), (no, ones(1, 3)), (no, ones(2, 3))):
        wanted = flat(evaluate(mod, given))
        assert flat(evaluate(resolved, given)) == flat(exe(*given)) == wanted
    for run in (lambda *given: evaluate(mod, given), lambda *given: evaluate(resolved, given), exe):
        with pytest.raises(RunError, match="squeeze"):
            run(yes, ones(2, 3))
