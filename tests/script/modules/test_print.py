"""Programs printed as scripts: what is read back is alpha-equal."""

from __future__ import annotations

import ast

import numpy as np
from hypothesis import given

from legato.arith.expr import Expr, Var, const
from legato.base import dtype as dt
from legato.ir.equal import alpha_equal as module_equal
from legato.ir.expr import GlobalVar
from legato.ir.module import Module
from legato.script import parse, show
from legato.tir.buffer import Buffer
from legato.tir.equal import alpha_equal
from legato.tir.expr import Load, call
from legato.tir.parser import parse_func
from legato.tir.stmt import Check, Func, Let, Store, block
from tests.programs.settings import examples
from tests.tir import programs
from tests.tir.test_text import EXAMPLE, HOST


def again(func: Func) -> Func:
    """What the script of a loop program says."""
    text = show(func)
    ast.parse(text)
    (found,) = parse(text).functions.values()
    assert isinstance(found, Func)
    return found


@examples(150, fuzz=False)
@given(programs.functions)
def test_random_loop_programs_come_back(func: Func) -> None:
    assert alpha_equal(again(func), func), show(func)


def test_an_example_comes_back() -> None:
    func = parse_func(EXAMPLE.replace("  barrier;\n", ""))
    assert alpha_equal(again(func), func)


def test_deep_and_long_programs_come_back() -> None:
    x = Buffer("x", (const(4),), dt.float32)
    e: Expr = Load(x, (const(0),))
    for _ in range(2000):
        e = call("neg", e + Load(x, (const(1),)))
    lets = [Var("v", dt.float32) for _ in range(3000)]
    body: object = Store(x, (const(0),), lets[-1] + e)
    for n in reversed(range(len(lets))):
        assert isinstance(body, Store | Let)
        body = Let(lets[n], lets[n - 1] + const(1.0, dt.float32) if n else Load(x, (const(3),)), body)
    assert isinstance(body, Let)
    func = Func("deep.f", (x,), block(Check(const(True, dt.bool_), 5, 'a "b"'), body))
    assert alpha_equal(again(func), func)


def test_a_module_of_host_functions_comes_back() -> None:
    """With the arrays that they name."""
    held = {"conv.weight": np.array(3, np.int8), "large": np.arange(99.0)}
    module = Module({GlobalVar("main"): parse_func(HOST.replace("w[]", "index(w[])"))}, constants=held)
    arrays: dict[str, np.ndarray] = {}
    for text, beside in ((show(module), None), (show(module, arrays), arrays)):
        again = parse(text, constants=beside)
        assert module_equal(again, module), text
        assert all(np.array_equal(again.constants[k], v) for k, v in held.items())
    assert len(arrays) == 1
