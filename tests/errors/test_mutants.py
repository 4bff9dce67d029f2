"""Whatever a program is, it is typed or refused: no other exception, and no typed program that is malformed.

The default run tries some hundred mutants; `make mutants` a hundred thousand (LEGATO_MUTANTS sets how many).
"""

from __future__ import annotations

import os
from random import Random

import pytest

from legato.base.errors import CompileError
from legato.infer.infer import infer
from legato.ir.equal import alpha_equal
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.verify import Stage, verify
from legato.ops import table
from tests.errors.corpus import PROGRAMS, VERSION
from tests.errors.mutants import module_mutant, text_mutant

COUNT = int(os.environ.get("LEGATO_MUTANTS", "300"))
BLOCKS = 10


def read(text: str) -> Module:
    """The module of a text, untyped."""
    return parse(text, ops=table())


@pytest.mark.parametrize("text", PROGRAMS, ids=range(len(PROGRAMS)))
def test_the_programs_are_right(text: str) -> None:
    module = infer(read(VERSION + text))
    verify(module, Stage.TYPED)
    assert infer(module) is module
    assert alpha_equal(infer(read(str(module))), module)


@pytest.mark.parametrize("block", range(BLOCKS))
def test_damaged_tokens(block: int) -> None:
    right = 0
    for seed in range(block, COUNT, BLOCKS):
        text = text_mutant(Random(seed))
        try:
            module = infer(read(text))
        except CompileError:
            continue
        verify(module, Stage.TYPED)
        assert infer(module) is module, seed
        assert alpha_equal(infer(read(str(module))), module), seed
        right += 1
    assert right, "the mutants must not all be wrong"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_damaged_nodes(block: int) -> None:
    modules = [read(VERSION + text) for text in PROGRAMS]
    modules += [infer(m) for m in modules]
    right = 0
    for seed in range(block, COUNT, BLOCKS):
        rng = Random(seed)
        try:
            module = infer(module_mutant(rng, rng.choice(modules)))
            verify(module, Stage.TYPED)
        except CompileError:
            continue
        right += 1
    assert right, "the mutants must not all be wrong"
