"""Every pass on random programs: the meaning stays, the result is well-formed, and a second time changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.parser import parse
from legato.ir.printer import show_with_tensors
from legato.ir.verify import Stage, verify
from legato.ops import table as operators
from legato.pipelines import DEFAULT
from legato.transform import table
from legato.transform.pass_ import Pass, run
from tests.graphs import Program, compare, leaves, programs
from tests.programs import strategy as language
from tests.programs.settings import examples
from tests.programs.values import moved, same

STAGES = {"infer-types": Stage.TYPED, **dict.fromkeys(("to-a-normal", "fuse", "rematerialize"), Stage.A_NORMAL)}
EXACT = {name for name, p in table().items() if not p.rounds}
KEEPING = {name for name, p in table().items() if p.keeps_meaning}
FIRST_ORDER = {"defunctionalize", "to-cps"}  # passes that refuse programs whose @main gives functions
GRAPH = [p for p in DEFAULT[:-1] if p.name not in FIRST_ORDER]
NARROWS = {"low-precision", "mixed-precision"}  # their own tests have programs and bounds


def prepared(program: Program, p: Pass) -> Program:
    """`program` as the pipeline hands it to `p`: fusion is of A-normal form."""
    return replace(program, module=run(program.module, DEFAULT[:-1])) if p.name == "fuse" else program


@pytest.mark.parametrize("name", sorted(KEEPING - NARROWS))
@examples(8, heavy=15)
@given(programs(steps=16, limit=512))
def test_the_meaning_stays(name: str, program: Program) -> None:
    p = table()[name]()
    program = prepared(program, p)
    args = program.arguments()
    new = replace(program, module=p(program.module))
    verify(new.module, STAGES.get(name))
    result = evaluate(new.module, args)
    if name in EXACT:
        for g, w in zip(leaves(result), leaves(evaluate(program.module, args)), strict=True):
            np.testing.assert_array_equal(g, w)
    else:
        compare(result, program, args)


@pytest.mark.parametrize("name", sorted(KEEPING))
@examples(10)
@given(programs(steps=16, limit=512))
def test_twice_is_once(name: str, program: Program) -> None:
    p = table()[name]()
    once = p(prepared(program, p).module)
    assert p(once) is once


@examples(15)
@given(programs(steps=16, limit=512), st.lists(st.sampled_from(sorted(KEEPING - NARROWS - {"fuse"})), max_size=6))
def test_passes_in_any_order(program: Program, names: list[str]) -> None:
    module = run(program.module, [table()[name]() for name in names])
    args = program.arguments()
    compare(evaluate(module, args), program, args)


@examples(15)
@given(programs(steps=16, limit=512))
def test_text_of_every_stage(program: Program) -> None:
    module = program.module
    for p in DEFAULT:
        module = p(module)
        text, tensors = show_with_tensors(module)
        assert alpha_equal(parse(text, ops=operators(), constants=tensors), module)


# ------------------------------------------------------------------ programs over the whole language


@pytest.mark.parametrize("name", sorted(KEEPING - NARROWS))
@examples(8, heavy=20)
@given(language.programs(size=40, smooth=True))
def test_the_meaning_of_language_programs_stays(name: str, program: language.Program) -> None:
    p = table()[name]()
    assume(name not in FIRST_ORDER or not program.gives_functions)
    module = program.module if p.name != "fuse" else run(program.module, GRAPH)
    new = p(module)
    verify(new, STAGES.get(name))
    rounded = p.rounds or name == "legalize"  # whose sums are those of its loops, not NumPy's
    assert same(evaluate(new, program.args), evaluate(module, program.args), rounded=rounded)
    assert p(new) is new
    verify(infer(new), Stage.TYPED)


@examples(20)
@given(language.programs(size=40, smooth=True))
def test_the_pipeline_keeps_the_meaning_of_language_programs(program: language.Program) -> None:
    assume(not program.gives_functions)
    module = program.module
    for p in DEFAULT:
        module = p(module)
        text, tensors = show_with_tensors(module)
        again = parse(text, ops=operators(), constants=tensors)
        assert alpha_equal(again, module)
    wanted = evaluate(program.module, program.args)
    assert same(evaluate(module, program.args), wanted)
    assert same(evaluate(again, moved(program.args, again)), wanted)
