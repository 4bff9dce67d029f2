"""Continuation-passing style under Relay's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from legato import relay
from legato.base.errors import CompileError, UnsupportedError
from legato.relay import transform

TEXT = """
def @f(%n: int32) -> int32 { if (less(%n, 1)) { 0 } else { add(%n, @f(subtract(%n, 1))) } }
def @main(%x: int32) -> int32 { let %y = @f(%x); multiply(%y, @f(%y)) }"""


def parsed(text: str) -> Any:
    return transform.InferType()(relay.parse(f'#[version = "0.0.5"]\n{text}'))


def run(mod: Any, x: int) -> int:
    return int(relay.create_executor("debug", mod).evaluate()(np.int32(x)))


def test_functions_of_a_module() -> None:
    mod = parsed(TEXT)
    assert [(p.info.name, p.info.opt_level) for p in (transform.ToCPS(), transform.UnCPS())] == [
        ("ToCPS", 1),
        ("UnCPS", 1),
    ]
    new = transform.ToCPS()(mod)
    assert str(new["main"].checked_type).endswith("(int32, fn (int32) -> Answer) -> Answer")
    back = transform.UnCPS()(new)
    assert str(back["main"].checked_type) == str(mod["main"].checked_type)
    assert run(back, 3) == run(mod, 3) == 126


def test_one_function() -> None:
    mod = parsed(TEXT)
    made = transform.to_cps(mod["main"], mod)
    assert [gv.name for gv in mod] == ["f", "main", "f_cps"]
    assert run(mod, 3) == 126
    direct = transform.un_cps(made)
    mod["main"] = direct
    assert run(mod, 3) == 126
    x = relay.var("x", shape=(), dtype="int32")
    alone = transform.un_cps(transform.to_cps(relay.Function([x], relay.add(x, x))))
    assert run(relay.IRModule.from_expr(alone), 4) == 8


def test_recursion_is_renamed() -> None:
    mod = parsed(TEXT)
    made = transform.un_cps(transform.to_cps(mod["f"], mod))
    assert [gv.name for gv in mod] == ["f", "main", "f_cps"]
    mod["main"] = made
    assert run(mod, 4) == 10


def test_refusals() -> None:
    x = relay.var("x", shape=())
    with pytest.raises(CompileError, match="takes no continuation"):
        transform.un_cps(transform.InferType()(relay.IRModule.from_expr(relay.Function([x], x)))["main"])
    mod = parsed(
        "type Box { Box(fn (int32) -> int32) } def @main(%b: Box) -> int32 { match (%b) { Box(%f) => %f(1) } }"
    )
    with pytest.raises(UnsupportedError, match="a data type of the module holds functions"):
        transform.to_cps(mod["main"], mod)
