"""parse(print(m)) is m, and load(save(m)) is m with everything that text leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given

from legato.infer.infer import infer
from legato.ir.equal import alpha_equal, structural_hash
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ir.printer import show_with_tensors
from legato.ops import table
from tests.ir.programs import OPS, modules
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs


@examples(40)
@given(modules())
def test_text_and_json_give_the_module_back(module: Module) -> None:
    text, tensors = show_with_tensors(module)
    again = parse(text, ops=OPS, constants=tensors)
    assert alpha_equal(again, module)
    assert alpha_equal(module, again)
    assert structural_hash(again) == structural_hash(module)
    assert show_with_tensors(again)[0] == text
    for each in (module, again):  # the second has spans
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        saved = save_json(each, tensors=arrays)
        loaded = load_json(saved, ops=OPS, tensors=arrays)
        assert alpha_equal(loaded, module)
        assert structural_hash(loaded) == structural_hash(module)
        assert save_json(loaded, tensors={}) == saved  # types, spans and sharing, too
        assert show_with_tensors(loaded)[0] == text


@examples(30)
@given(programs())
def test_typed_programs_come_back_typed(program: Program) -> None:
    module = program.module
    saved = save_json(module)
    loaded = load_json(saved, ops=table())
    assert alpha_equal(loaded, module)
    assert save_json(loaded) == saved
    assert infer(loaded) is loaded
