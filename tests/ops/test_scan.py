"""The operator `scan`: what is no step is refused where the call is typed; steps that pass things through."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import TypeCheckError
from legato.base.lexer import quote
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.module import Module

HEAD = '#[version = "0.0.5"]\n'
STEP = """def @main(%t: int32, %h: Tensor[(2, 3), float32], %x: Tensor[(2, 3), float32], %w: Tensor[(3, 3), float32]) {
  let %y = tanh(nn.dense(%h, %w) + %x);
  (%y, exp(%y))
}
"""
PARAMS = "%h: Tensor[(2, 3), float32], %xs: Tensor[(5, 2, 3), float32], %w: Tensor[(3, 3), float32]"
SIGNATURE = "the step: @main takes an int32 and tensors of known extents, and gives a tuple of such tensors"


def module(step: str = STEP, params: str = PARAMS, counts: str = "steps=5") -> Module:
    call = f"scan(%h, %xs, %w, step={quote(HEAD + step)}, {counts})"
    return infer(legato.parse(f"{HEAD}def @main({params}) {{ {call} }}\n"))


@pytest.mark.parametrize(
    ("step", "wanted"),
    [
        ("kernel @main() { }", "the step: @main is a loop-level function"),
        ("def @f() { 1 }", "the step: the module has no function @main"),
        ("def @main() { 1 }", SIGNATURE),
        (STEP.replace("%t: int32", "%t: float32"), SIGNATURE),
        (STEP.replace("(2, 3)", "(n, 3)"), SIGNATURE),
        (STEP.replace("(%y, exp(%y))", "%y"), SIGNATURE),
        (STEP.replace("(%y, exp(%y))", "((%y, %y), %y)"), SIGNATURE),
        (STEP.replace("exp(%y)", "(fn () { %y })()"), "is not made of stages"),
    ],
)
def test_what_is_no_step(step: str, wanted: str) -> None:
    with pytest.raises(TypeCheckError) as caught:
        module(step)
    assert wanted in caught.value.message


@pytest.mark.parametrize(
    ("step", "params", "counts", "wanted"),
    [
        (STEP, PARAMS, "steps=-1", "got -1 steps"),
        (STEP, PARAMS, "steps=6", "the dims differ, 5 and 6"),
        (STEP, PARAMS, "steps=5, states=0", "the step has no 0 states and 1 slices"),
        (STEP, PARAMS.replace("Tensor[(5, 2, 3), float32]", "float32"), "steps=5", "operand 2 is a scalar"),
        (STEP, PARAMS.replace("Tensor[(3, 3), float32]", "(float32, float32)"), "steps=5", "must be a tensor"),
    ],
)
def test_operands_that_do_not_fit(step: str, params: str, counts: str, wanted: str) -> None:
    with pytest.raises(TypeCheckError, match=wanted):
        module(step, params, counts)


@pytest.mark.parametrize("results", ["%y, %h", "%h, %y", "%x, %h, %w", "%y, %t, 2f", "%y, %y, %x"])
def test_steps_that_pass_things_through(results: str) -> None:
    mod = module(STEP.replace("%y, exp(%y)", results))
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(shape, np.float32) for shape in ((2, 3), (5, 2, 3), (3, 3))]
    compiled: Any = legato.compile(mod)(*args)
    for got, want in zip(compiled, evaluate(mod, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
