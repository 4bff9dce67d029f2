"""Graph functions printed as scripts: what is read back is alpha-equal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from legato.base.errors import CompileError
from legato.infer.infer import infer
from legato.interp import evaluate
from legato.ir.attrs import make_attrs
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Expr, Function, GlobalVar, Let, TupleGetItem, Var, constant, tuple_of
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.parser import parse as parse_text
from legato.ir.tensor_to_shape import TENSOR_TO_SHAPE
from legato.ir.types import TensorType, tensor_type
from legato.ops import table
from legato.script import parse, show
from legato.script.modules.spelling import SPELT
from tests.ops.test_ops import arguments, type_of
from tests.programs.settings import examples
from tests.programs.strategy import Program, programs
from tests.programs.values import moved, same

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


LETS = """
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(4, 4), float32], %c: bool) {
  let %a = nn.softmax(matmul(%x, %w));
  let %g = fn (%y: Tensor[(k, 4), float32]) { let %z = sum(%y, axis=[0], keepdims=True); subtract(%y, %z) };
  let %d = dataflow { let %p = exp(%a); let %q = cast(%p, dtype="float64"); output(%q, %p) };
  let %r = if (%c) { let %t = tanh(%d.1); add(%t, %t) } else { %g(%a) };
  (%r, %d.0, concatenate((%a, %x), axis=1), strided_slice(%x, begin=[0], end=[2], axes=[1]), shape[n, 4])
}
"""


def test_a_chain_of_lets_has_the_plain_form_and_names_of_relax() -> None:
    module = infer(parse_text(LETS, ops=table()))
    text = show(module)
    assert "form=" not in text
    assert "R.op." not in text
    assert alpha_equal(parse(text), module), text
    shown = [line.strip() for line in text.splitlines()]
    wanted = ["a = R.nn.softmax(R.matmul(x, w))", "with R.dataflow():", 'q = R.astype(p, "float64")', "R.output(q, p)",
              "z = R.sum(y, axis=(0,), keepdims=True)", "t = R.tanh(p)", "r = g(a)"]  # fmt: skip
    assert set(wanted) <= set(shown), text


def sampled(op: Op) -> Module:
    """The calls of an operator that its samples are, each in a function."""
    made = {}
    for n, sample in enumerate(op.samples):
        types = [type_of(a) for a in arguments(op, sample)]
        params = [Var(f"x{i}", ty=ty) for i, ty in enumerate(types)]
        args = [v if isinstance(v.ty, TensorType) else tuple_of([TupleGetItem(v, i) for i in range(len(v.ty.fields))])
                for v in params]  # fmt: skip
        made[GlobalVar(f"f{n}")] = Function(tuple(params), Call(op, tuple(args), make_attrs(op, sample.attrs)))
    return infer(Module(made))


def test_names_of_relax_say_the_very_call_or_are_not_used() -> None:
    used: set[str] = set()
    for op in (*table().values(), TENSOR_TO_SHAPE):
        module = sampled(op)
        text = show(module)
        assert alpha_equal(parse(text), module), text
        used |= set(re.findall(r"R\.((?:(?:nn|vision)\.)?\w+)\(", text))
    assert {name for names in SPELT.values() for name, _ in names} - used == set()


def test_arrays_are_written_or_collected() -> None:
    large, small = np.arange(40, dtype=np.float32), np.array([np.nan, -0.0, np.inf], np.float32)
    x = Var("x", ty=tensor_type((40,)))
    ops = table()
    body = tuple_of([Call(ops["add"], (x, constant(large))), Call(ops["add"], (x, constant(large))), constant(small)])
    module = infer(Module.from_expr(Function((x,), body)))
    assert alpha_equal(parse(show(module)), module)
    arrays: dict[str, np.ndarray] = {"c0": small}  # of another module
    text = show(module, arrays)
    assert 'R.meta("c1")' in text
    assert len(text) < 600
    assert arrays.pop("c0") is small
    assert all(np.array_equal(a, large) for a in arrays.values())
    assert alpha_equal(parse(text, constants=arrays), module)
    with pytest.raises(CompileError, match="no array is given for the constant 'c1'"):
        parse(text)


DATA = """
type Box { Box(Tensor[(k,), float32]), None }
type Tree[A, B] { Leaf(A), Node(Tree[A, B], (B, Tree[A, B])) }
def @double(%x: Box) {
  match (%x) { Box(%v: Tensor[(m,), float32]) => Box(add(%v, zeros(shape=[m], dtype=float32))), None => None }
}
def @first(%t: (int32, int32)) { match (%t) { (%_, %__1) => add(%_, %__1) } }
def @apply[A, B](%f: fn (A) -> B, %x: A) -> B { %f(%x) }
def @where(%x: Tensor[(n,), bool]) {
  let %a = argwhere(%x);
  let %b: Tensor[(k, 1), int32] = %a;
  let %c = ref(zeros(shape=[k, 2], dtype=float32));
  let %d = ref_write(%c, @apply(exp, ref_read(%c)));
  (ref_read(%c), match? ((%b, 1)) { (%u, _) => %u })
}
"""


DIMS = [
    "let %a = if (%c) { argwhere(%x) } else { argwhere(%x) }; "
    "let %b: Tensor[(k, 1), int32] = %a; (shape[k], add(%b, %b))",
    "let %b: (Tensor[(k, 1), int32], Tensor[(j, 1), int32]) = (argwhere(%x), argwhere(%x)); (shape[k, j], %b)",
    "let %g = fn (%y: Tensor[(m,), bool]) { let %b: Tensor[(k, 1), int32] = argwhere(%y); zeros(shape=[k, m], "
    "dtype=float32) }; (%g(%x), %g(%x))",
    "let %d = dataflow { let %b: Tensor[(k, 1), int32] = argwhere(%x); let %c = zeros(shape=[k, 2], dtype=float32); "
    "output(%b, %c) }; (%d.0, %d.1, %d.1)",
    "let %r = ref(argwhere(%x)); let %b: Tensor[(k, 1), int32] = ref_read(%r); (shape[k], %b)",
]


@pytest.mark.parametrize("body", DIMS)
def test_dims_that_data_decides_come_back(body: str) -> None:
    module = infer(parse_text(f"def @main(%x: Tensor[(n,), bool], %c: bool) {{ {body} }}", ops=table()))
    text = show(module)
    assert alpha_equal(parse(text), module), text


def test_the_rest_of_the_language_comes_back() -> None:
    """Data types with dims of their own, dims that data decides, cells, operators as values, partial matches."""
    module = infer(parse_text(DATA, ops=table()))
    module = replace(module, attrs={"a": (1, 2.5, None, "b"), "c": {"d": True}})
    text = show(module)
    assert alpha_equal(parse(text), module), text


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
def test_random_programs_come_back(program: Program) -> None:
    module, arrays = program.module, dict[str, Any]()
    text = show(module, arrays)
    again = parse(text, constants=arrays)
    assert alpha_equal(again, module), text
    assert same(evaluate(again, moved(program.args, again)), evaluate(module, program.args))
