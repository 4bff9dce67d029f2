"""The language agrees with itself on random programs: inference, evaluation, text, JSON, verification.

The default run tries a few hundred programs; `make fuzz` tries ten thousand (LEGATO_FUZZ sets how many).
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from legato.base.dtype import dtype
from legato.infer.infer import infer, infer_text
from legato.interp import Data, evaluate
from legato.ir import expr as ir
from legato.ir.equal import alpha_equal
from legato.ir.expr import Function
from legato.ir.json_load import load_json
from legato.ir.json_save import save_json
from legato.ir.op import Op
from legato.ir.parser import parse
from legato.ir.printer import show_with_tensors
from legato.ir.types import FuncType
from legato.ir.verify import Stage, verify
from legato.ir.visit import nodes
from legato.ops import table
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs
from tests.programs.values import has_type, moved, same

KINDS = (ir.Var, ir.GlobalVar, ir.Constant, Op, ir.Constructor, Function, ir.Call, ir.Let, ir.If, ir.Match, ir.Tuple,
         ir.TupleGetItem, ir.RefCreate, ir.RefRead, ir.RefWrite, ir.MatchCast, ir.Dataflow)  # fmt: skip


@examples(100)
@given(programs())
def test_inference_agrees_with_evaluation(program: Program) -> None:
    module = program.module
    verify(module, Stage.TYPED)
    assert infer(module) is module
    main = module["main"]
    assert isinstance(main, Function)
    assert isinstance(main.ty, FuncType)
    assert main.ty.ret == program.result
    result = evaluate(module, program.args)
    assert has_type(result, program.result, program.dims, module.types)
    assert same(result, evaluate(program.source, program.args))


@examples(60)
@given(programs(), st.booleans())
def test_text_keeps_everything(program: Program, typed: bool) -> None:
    module = program.module if typed else program.source
    text, tensors = show_with_tensors(module)
    again = parse(text, ops=table(), constants=tensors)
    assert alpha_equal(again, module)
    inferred = infer_text(again)
    assert not typed or show_with_tensors(inferred)[0] == text
    assert same(evaluate(inferred, moved(program.args, again)), evaluate(module, program.args))


@examples(40)
@given(programs(), st.booleans())
def test_json_keeps_everything(program: Program, typed: bool) -> None:
    module = program.module if typed else program.source
    again = load_json(save_json(module), ops=table())
    assert alpha_equal(again, module)
    assert same(evaluate(again, moved(program.args, again)), evaluate(module, program.args))


@examples(60)
@given(programs(smooth=True))
def test_float64_mode_has_the_same_shapes(program: Program) -> None:
    """The same value but for the dtypes and the rounding of floats: constructors, shapes, integers."""
    module = program.module
    pairs = [(evaluate(module, program.args), evaluate(module, program.args, float64=True))]
    while pairs:
        a, b = pairs.pop()
        assert type(a) is type(b)
        if isinstance(a, tuple):
            pairs += zip(a, b, strict=True)
        elif isinstance(a, Data):
            assert a.constructor is b.constructor
            pairs += zip(a.fields, b.fields, strict=True)
        elif isinstance(a, np.ndarray):
            assert a.shape == b.shape
            assert b.dtype == (np.float64 if dtype(a.dtype).is_float else a.dtype)


def test_programs_have_everything() -> None:
    kinds: Counter[type] = Counter()
    operators: set[str] = set()

    @examples(200, fuzz=False)
    @given(programs())
    def look(program: Program) -> None:
        for _, func in program.source.graph_functions():
            for node in nodes(func):
                kinds[type(node)] += 1
                if isinstance(node, Op):
                    operators.add(node.name)

    look()
    assert {k for k in KINDS if kinds[k] < 3} == set()
    assert len(operators) >= 40
