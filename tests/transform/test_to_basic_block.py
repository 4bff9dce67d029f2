"""Basic-block normal form on random programs: no value is shared by blocks."""

from __future__ import annotations

from hypothesis import given

from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.blocks import shared_by_blocks
from legato.ir.expr import Dataflow, Function
from legato.ir.module import Module
from legato.ir.parser import parse
from legato.ops import table as operators
from legato.transform.to_basic_block import ToBasicBlock
from tests.programs import strategy as language
from tests.programs.settings import examples


def shared(mod: Module) -> int:
    return sum(len(shared_by_blocks(func).values) for _, func in mod.graph_functions())


@examples(30)
@given(language.programs(size=60, smooth=True))
def test_blocks_share_variables_only(program: language.Program) -> None:
    assert shared(ToBasicBlock()(program.module)) == 0


def test_values_in_dataflow_blocks_are_bound_there() -> None:
    b = Builder()
    x, c = b.var("x", (4,)), b.var("c", (), "bool")
    first, second = b.var("first", (4,)), b.var("second", (4,))
    value = b.tanh(first)
    chosen = b.if_(c, b.negative(value), b.sin(value))
    block = b.dataflow([(first, b.exp(x)), (second, chosen)], [b.add(second, value)])
    mod = infer(Module.from_expr(b.function([x, c], block)))
    new = ToBasicBlock()(mod)
    assert shared(mod)
    assert not shared(new)
    assert infer(new) is new
    main = new["main"]
    assert isinstance(main, Function)
    assert isinstance(main.body, Dataflow)
    assert len(main.body.bindings) == 3


def test_dims_that_come_late_are_named_behind_what_brings_them() -> None:
    mod = infer(parse("""#[version = "0.0.5"]
        def @main(%c: bool, %x: Tensor[(n,), float32]) {
          let %k = match_cast(argwhere(%x), Tensor[(k, 1), int32]);
          %0 = ones(shape=[k]);
          (%k, if (%c) { %0 } else { negative(%0) })
        }""", ops=operators()))  # fmt: skip
    new = ToBasicBlock()(mod)
    assert shared(mod)
    assert not shared(new)
    assert infer(new) is new
