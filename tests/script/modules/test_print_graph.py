"""Graph functions printed as scripts: what is read back is alpha-equal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given

from legato.base.errors import TypeCheckError, UnsupportedError
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.expr import Expr, Function, Let, Var, constant
from legato.ir.module import Module
from legato.ir.parser import parse as parse_text
from legato.ops import table
from legato.script import parse, show
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs

BOTH = """
@I.ir_module
class Module:
    @T.prim_func
    def double(x: T.Buffer(("n", 4), "float32"), y: T.Buffer(("n", 4), "float32")):
        for i, j in T.grid(n, 4):
            with T.sblock("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] * 2.0

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        n = T.int64()

        @R.function
        def add(z: R.Tensor(("k", 4), "float32")) -> R.Tensor(("k", 4), "float32"):
            return R.add(z, R.const([1.0, 2.0, 3.0, 4.0]))

        with R.dataflow():
            a = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((n, 4), "float32"))
            b = R.nn.softmax(a, axis=0)
            R.output(a, b)
        if c:
            r = R.reshape(add(a), (4, n))
        else:
            r = R.permute_dims(b)
        m = R.match_cast(r, R.Tensor((4, "k2"), "float32"))
        return (m, R.shape([n, 4]))
"""


def test_a_module_of_both_levels_comes_back() -> None:
    module = parse(BOTH)
    again = parse(show(module))
    assert alpha_equal(again, module), show(module)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    args = [x, np.array(True)]
    assert np.array_equal(evaluate(again, args)[0], evaluate(module, args)[0])


def test_nodes_that_are_shared_come_back() -> None:
    text = "def @main(%x: Tensor[(3, 4), float32]) { %0 = exp(%x); %1 = add(%0, %0); multiply(%1, %0) }"
    module = infer(parse_text(text, ops=table()))
    assert alpha_equal(parse(show(module)), module)


def test_a_long_chain_comes_back() -> None:
    lets = [Var("v") for _ in range(2000)]
    body: Expr = lets[-1]
    for n in reversed(range(len(lets))):
        body = Let(lets[n], lets[n - 1] if n else constant(1.0), body)
    module = infer(Module.from_expr(Function((), body)))
    assert alpha_equal(parse(show(module)), module)


@examples(60)
@given(programs())
def test_random_programs_come_back_or_are_refused(program: Program) -> None:
    module = replace(program.module, types={})  # functions that use data types are refused
    try:
        text = show(module)
    except (UnsupportedError, TypeCheckError):  # the latter of programs with data types, which are gone
        return
    assert alpha_equal(parse(text), module), text
