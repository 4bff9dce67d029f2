"""ExpandCalls: operands that do more than give a value, which the operators that a call becomes may not read."""

from __future__ import annotations

import numpy as np
import pytest

import legato
from legato.arith.expr import Var
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.attrs import make_attrs
from legato.ir.contents import called_operators
from legato.ir.expr import Expr
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.parser import parse
from legato.ir.types import tensor_type
from legato.ops import table
from legato.transform.canonicalize_qnn import CanonicalizeQnn
from legato.transform.expand_calls import ExpandCalls
from legato.transform.pass_ import run
from tests.ops.test_ops import arguments, type_of

EXPANDED = [op for op in table().values() if op.expand is not None]
PASSES = {
    "all": ExpandCalls(),
    "known": ExpandCalls(known=True),
    "ungraded": ExpandCalls(ungraded=True),
    "quantised": CanonicalizeQnn(),
}


@pytest.mark.parametrize("op", EXPANDED, ids=lambda op: op.name)
def test_operands_are_evaluated_once_and_in_order(op: Op) -> None:
    """Each operand changes a cell first, in a way that depends on what is in it."""
    sample = op.samples[0]
    values, b = arguments(op, sample), Builder()
    params = [b.var(f"x{n}", type_of(v)) for n, v in enumerate(values)]

    def body() -> Expr:
        cell = b.let("cell", b.ref(np.float64(1)))
        args = [b.body(lambda p=p, n=n: _noted(b, cell, p, n)) for n, p in enumerate(params)]
        made = b.let("made", b.call_op(op, args, make_attrs(op, sample.attrs)))
        return b.tuple_([made, b.read(cell)])

    mod = Module.from_expr(b.function(params, b.body(body)))
    wanted = 1.0
    for n in range(len(params)):
        wanted = 3 * wanted + n
    with np.errstate(all="ignore"):
        assert evaluate(mod, values)[1] == wanted
        for name, step in PASSES.items():
            assert evaluate(run(mod, (step,)), values)[1] == wanted, name
    assert op not in called_operators(run(mod, (ExpandCalls(),))["main"])


def _noted(b: Builder, cell: Expr, value: Expr, n: int) -> Expr:
    b.let("written", b.write(cell, b.add(b.multiply(b.read(cell), np.float64(3)), np.float64(n))))
    return value


def test_compiled_calls_write_what_the_interpreter_writes() -> None:
    """A cast reads only the type of its second operand; a slice, only the extents."""
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(4, 3), int8], %y: Tensor[(2, 2), float32]) {
      let %r = ref(1f);
      let %a = cast_like({ ref_write(%r, ref_read(%r) + 3f); %x }, { ref_write(%r, ref_read(%r) * 2f); %y });
      let %b = slice_like(%a, { ref_write(%r, ref_read(%r) + 7f); %y });
      (%b, ref_read(%r))
    }"""
    mod = infer(parse(text, ops=table()))
    x, y = np.arange(12, dtype=np.int8).reshape(4, 3), np.zeros((2, 2), np.float32)
    for result, written in (evaluate(mod, [x, y]), evaluate(ExpandCalls()(mod), [x, y]), legato.compile(mod)(x, y)):
        np.testing.assert_array_equal(result, x[:2, :2].astype(np.float32))
        assert written == 15


def test_data_that_may_fail_hide_no_numbers() -> None:
    b, n = Builder(), Var("n")
    x = b.var("x", tensor_type((n,), "float32"))
    cast = b.match_cast(x, tensor_type((3,), "float32"))
    mod = Module.from_expr(b.function([x], b.op("dyn.tile")(cast, b.constant(np.array([2])))))
    new = ExpandCalls(known=True)(mod)["main"]
    assert table()["tile"] in called_operators(new)
    assert table()["dyn.tile"] not in called_operators(new)
