"""Modules written binding by binding are those of scripts, and compute what NumPy does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import legato
from legato import relax, te
from legato.base.errors import CompileError, TypeCheckError
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.module import Module
from legato.script import parse
from legato.script import relax as R

n = te.var("n")
F32 = "float32"


def _var(name: str, *shape: Any, dtype: str = F32) -> Any:
    return relax.Var(name, R.Tensor(shape, dtype))


def _matmul(a: Any, b: Any) -> Any:
    k = te.reduce_axis((0, a.shape[1]), "k")
    return te.compute((a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), "Y")


def _bias(a: Any, b: Any) -> Any:
    return te.compute(a.shape, lambda i, j: a[i, j] + b[j], "Z")


def _relu(a: Any) -> Any:
    return te.compute(a.shape, lambda *i: te.max(a[i], 0.0), "Y")


def _mlp(first: Callable[..., Any]) -> Module:
    """Two layers, the first of which is `first(builder, x, w, b)`."""
    x, w0, b0 = _var("x", n, 784), _var("w0", 784, 128), _var("b0", 128)
    w1, b1 = _var("w1", 128, 10), _var("b1", 10)
    bb = relax.BlockBuilder()
    with bb.function("main", [x, w0, b0, w1, b1]):
        with bb.dataflow():
            lv1 = first(bb, x, w0, b0)
            lv2 = bb.emit(relax.op.matmul(lv1, w1) + b1)
            out = bb.emit_output(lv2)
        bb.emit_func_output(out)
    return bb.get()


def _operators(bb: relax.BlockBuilder, x: Any, w: Any, b: Any) -> Any:
    return bb.emit(relax.op.nn.relu(bb.emit(relax.op.add(relax.op.matmul(x, w), b))))


def _programs(bb: relax.BlockBuilder, x: Any, w: Any, b: Any) -> Any:
    return bb.emit_te(_relu, bb.emit_te(_bias, bb.emit_te(_matmul, x, w), b))


MLP = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 784), "float32"), w0: R.Tensor((784, 128), "float32"), b0: R.Tensor((128,), "float32"),
             w1: R.Tensor((128, 10), "float32"), b1: R.Tensor((10,), "float32")):
        with R.dataflow():
            lv0 = R.matmul(x, w0) + b0
            lv1 = R.nn.relu(lv0)
            lv2 = R.matmul(lv1, w1) + b1
            R.output(lv2)
        return lv2
"""


def test_a_module_is_that_of_its_script() -> None:
    assert alpha_equal(_mlp(_operators), parse(MLP))


@pytest.mark.parametrize("first", [_operators, _programs])
def test_the_perceptron_computes_what_numpy_does(first: Callable[..., Any]) -> None:
    mod = _mlp(first)
    exe = legato.compile(mod)
    luck = np.random.default_rng(0)
    for rows in (1, 7, 100):
        x, w0, b0, w1, b1 = (luck.standard_normal(s, F32) for s in ((rows, 784), (784, 128), 128, (128, 10), 10))
        wanted = np.maximum(x @ w0 + b0, 0) @ w1 + b1
        np.testing.assert_allclose(exe(x, w0, b0, w1, b1), wanted, rtol=1e-3, atol=1e-2)
        if rows == 1:
            np.testing.assert_allclose(evaluate(mod, [x, w0, b0, w1, b1]), wanted, rtol=1e-3, atol=1e-2)


def test_a_tensor_program_is_that_of_its_script() -> None:
    a = _var("A", n, 4)
    bb = relax.BlockBuilder()
    with bb.function("main", [a]):
        bb.emit_func_output(bb.emit_te(_relu, a, primfunc_name_hint="kernel"))
    assert alpha_equal(bb.get(), parse("""
@I.ir_module
class Module:
    @T.prim_func
    def kernel(A: T.Buffer(("n", 4), "float32"), Y: T.Buffer(("n", 4), "float32")):
        n = T.int64()
        for i, j in T.grid(n, 4):
            Y[i, j] = T.max(A[i, j], T.float32(0.0))

    @R.function
    def main(A: R.Tensor(("n", 4), "float32")):
        cls = Module
        n = T.int64()
        gv = R.call_tir(cls.kernel, (A,), out_sinfo=R.Tensor((n, 4), "float32"))
        return gv
"""))  # fmt: skip


def test_equal_programs_are_one() -> None:
    a = _var("A", n, 4)
    bb = relax.BlockBuilder()
    with bb.function("main", [a]):
        once = bb.emit_te(_relu, a)
        twice = bb.emit_te(_relu, once)
        assert (once.name, twice.name) == ("gv", "gv1")
        more = bb.emit_te(_relu, bb.emit(relax.op.concat([twice, twice], axis=0)))
        bb.emit_func_output(more)
    assert [gv.name for gv in bb.get().functions] == ["_relu", "_relu1", "main"]  # the second is over 2n rows


def test_dims_that_no_buffer_tells_are_stated() -> None:
    """A dim that is captured, and one that shapes hold in an expression alone."""
    m = te.var("m")
    x, s = _var("x", n, 4), _var("s", m)
    bb = relax.BlockBuilder()
    with bb.function("main", [x, s]):
        found = bb.emit_te(lambda a: te.compute((4,), lambda j: te.const(m, "float32") * a[0, j]), x)
        bb.emit_func_output(found)
    mod = bb.get()
    given = [np.ones((2, 4), F32), np.zeros(3, F32)]
    np.testing.assert_array_equal(legato.compile(mod)(*given), np.full(4, 3, F32))
    np.testing.assert_array_equal(evaluate(mod, given), np.full(4, 3, F32))


def test_a_program_of_several_results() -> None:
    x = _var("x", n, 4)
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit_te(lambda a: te.compute(a.shape, lambda i, j: (a[i, j] + 1.0, i * 2 + j)), x))
    mod = bb.get()
    given = np.ones((3, 4), F32)
    for first, second in (evaluate(mod, [given]), legato.compile(mod)(given)):
        np.testing.assert_array_equal(first, given + 1)
        np.testing.assert_array_equal(second, np.arange(3)[:, None] * 2 + np.arange(4))


def test_blocks_casts_choices_and_calls_are_those_of_scripts() -> None:
    m = te.var("m")
    x, y, c = _var("x", n, 4), _var("y", n, 4), _var("c", dtype="bool")
    bb = relax.BlockBuilder()
    with bb.function("twice", [y], private=True):
        bb.emit_func_output(bb.emit(relax.op.concat([y, y], axis=0)))
    twice = bb.get().var("twice")
    with bb.function("main"):
        with bb.dataflow():
            first = bb.emit(relax.op.exp(x))
            one = bb.emit_output(first)
            two = bb.emit_output(relax.op.negative(one))
        both = bb.emit(relax.Call(twice, [two]))
        assert both.struct_info == relax.TensorStructInfo((n * 2, 4), F32)
        cast = bb.match_cast(both, R.Tensor((m, 4), F32))
        found = bb.emit(relax.If(c, relax.op.sum(cast), relax.op.sum(one)))
        bb.emit_func_output([found, one], params=[x, c])
    assert alpha_equal(bb.get(), parse("""
@I.ir_module
class Module:
    @R.function(private=True)
    def twice(y: R.Tensor(("n", 4), "float32")):
        gv = R.concat([y, y], axis=0)
        return gv

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")):
        cls = Module
        with R.dataflow():
            one = R.exp(x)
            two = R.negative(one)
            R.output(one, two)
        both = cls.twice(two)
        cast = R.match_cast(both, R.Tensor(("m", 4), "float32"))
        if c:
            found = R.sum(cast)
        else:
            found = R.sum(one)
        return (found, one)
"""))  # fmt: skip


def test_calls_of_all_kinds_are_those_of_scripts() -> None:
    script = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def doubled(X: T.Buffer(("n", 4), "float32")):
        n = T.int64()
        for i, j in T.grid(n, 4):
            X[i, j] = X[i, j] * 2.0

    @R.function(pure=False)
    def main(x: R.Tensor(("n", 4), "float32"), w: R.Tensor((4,), "float32")):
        cls = Module
        n = T.int64()
        a = R.call_tir_inplace(cls.doubled, (x,), 0, out_sinfo=R.Tensor((n, 4), "float32"))
        b = R.call_pure_packed("f", a, sinfo_args=R.Tensor((n, 4), "float32"))
        c = R.call_dps_packed("g", (b, w), out_sinfo=[R.Tensor((n,), "float32"), R.Tensor((4,), "float32")])
        d = R.call_packed("h", w, sinfo_args=R.Tensor((4,), "int32"))
        e = R.print(d, format="{}")
        return (c, d)
""")
    x, w = _var("x", n, 4), _var("w", 4)
    bb = relax.BlockBuilder(Module({gv: f for gv, f in script.functions.items() if gv.name == "doubled"}))
    with bb.function("main", [x, w], pure=False):
        a = bb.emit(relax.call_tir_inplace(script.var("doubled"), [x], 0, R.Tensor((n, 4), F32)))
        b = bb.emit(relax.call_pure_packed("f", a, ty_args=relax.TensorType((n, 4), F32)))
        out = [relax.TensorStructInfo((n,), F32), R.Tensor((4,), F32)]
        c = bb.emit(relax.call_dps_packed("g", (b, w), out))
        d = bb.emit(relax.call_packed("h", w, sinfo_args=R.Tensor((4,), "int32")))
        bb.emit(relax.op.print(d, format="{}"))
        bb.emit_func_output((c, d))
    assert alpha_equal(bb.get(), script)


def test_a_packed_function_fills_what_another_input_tells() -> None:
    m = te.var("m")
    x, y = _var("x", n), _var("y", m)
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit(relax.call_dps_packed("f", x, relax.TensorType((m,), F32))))
    mod = bb.get()
    found = evaluate(mod, [np.ones(2, F32), np.ones(3, F32)], packed={"f": lambda x, out: out.fill(x.sum())})
    np.testing.assert_array_equal(found, np.full(3, 2, F32))
    with pytest.raises(TypeCheckError, match="dim m"), bb.function("odd", [x]):
        bb.emit_func_output(bb.emit(relax.call_dps_packed("f", x, relax.TensorType((m,), F32))))


def test_recursion_is_typed_with_the_module() -> None:
    i = relax.Var("i", relax.PrimStructInfo("int64"))
    bb = relax.BlockBuilder()
    me = relax.GlobalVar("main")
    again = relax.Function([i], relax.If(i < 10, relax.Call(me, [i * 2]), i), relax.PrimStructInfo("int64"))
    mod = Module({me: again})
    assert relax.BlockBuilder(mod).get()["main"].ret_type == relax.PrimStructInfo("int64")
    gv = bb.add_func(relax.Function([i], i + 1), "plus")
    bb.update_func(gv, relax.Function([i], i + 2))
    assert evaluate(bb.get(), [np.int64(1)], "plus") == 3


def test_a_program_that_takes_the_place_of_another_one_stays() -> None:
    x, a = _var("x", 4), te.placeholder((4,), F32, "a")
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        one = bb.emit_te(_relu, x)
        program = te.create_prim_func([a, te.compute((4,), lambda i: a[i] * 3.0)])
        bb.update_func(bb.lookup_binding(one).args[0], program)  # type: ignore[union-attr]
        bb.emit_func_output(
            (one, bb.emit_te(_relu, one), bb.emit_te(lambda t: te.compute((4,), lambda i: t[i] * 3.0), x))
        )
    mod = bb.get()
    assert [gv.name for gv in mod.functions] == ["_relu", "_relu1", "main"]
    given = np.array([-2, -1, 1, 2], F32)
    for found, wanted in zip(evaluate(mod, [given]), (given * 3, np.maximum(given * 3, 0), given * 3), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_function_of_another_type_takes_the_place_of_one() -> None:
    i, gv = relax.Var("i", relax.PrimStructInfo("int64")), relax.GlobalVar("f")
    mod = relax.BlockBuilder(Module({gv: relax.Function([i], i)})).get()
    bb = relax.BlockBuilder(mod)
    x = _var("x", 4)
    bb.update_func(gv, relax.Function([x, i], relax.If(i < 10, x, relax.Call(gv, [x, i])), x.ty))
    with bb.function("main", [x]):
        bb.emit_func_output(bb.emit(relax.Call(gv, [x, relax.prim_value(3)])))
    assert bb.get()["main"].ret_type == x.ty


def _never_closed(bb: relax.BlockBuilder) -> None:
    with bb.function("main", [_var("x", 4)]), bb.dataflow():
        pass


PROGRAM, OUT = relax.GlobalVar("program"), relax.TensorType((4,), F32)
WRONG: list[tuple[Callable[[relax.BlockBuilder], Any], str]] = [
    (lambda bb: bb.emit(_var("x", 4)), "a binding outside of a function"),
    (lambda bb: bb.emit_output(_var("x", 4)), "an output outside of a dataflow block"),
    (lambda bb: bb.function("main", [1]).__enter__(), "a parameter is a variable, got 1"),
    (lambda bb: bb.update_func(relax.GlobalVar("f"), relax.Function([], relax.const(1))), "no function @f"),
    (_never_closed, "the dataflow block has no output"),
    (lambda bb: relax.call_tir("program", [_var("x", 4)], OUT), "'program' is no function of a module"),
    (lambda bb: relax.call_tir(PROGRAM, [_var("x", 4)]), "the call is not told what it gives"),
    (lambda bb: relax.call_tir(PROGRAM, [_var("x", 4)], relax.ShapeType([4])), "outputs of a tensor program are"),
    (lambda bb: relax.call_tir(PROGRAM, [_var("x", 4)], OUT, tir_vars=-1), "-1 is no dim"),
    (lambda bb: relax.call_tir_inplace(PROGRAM, [_var("x", 4)], "0", OUT), "inplace_indices are numbers"),
    (lambda bb: relax.call_tir_inplace(PROGRAM, [_var("x", 4)], [0, 1], OUT), "1 results for 2"),
]


@pytest.mark.parametrize(("act", "message"), WRONG)
def test_what_is_out_of_place_says_so(act: Callable[[relax.BlockBuilder], Any], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        act(relax.BlockBuilder())


def test_a_function_ends_with_its_result() -> None:
    x = _var("x", 4)
    bb = relax.BlockBuilder()
    with pytest.raises(CompileError, match="function main has no result"), bb.function("main", [x]):
        pass
    with pytest.raises(CompileError, match="inside of main"), bb.function("main", [x]), bb.function("f", [x]):
        pass
    with pytest.raises(TypeCheckError, match=r"relax\.op\.matmul"), bb.function("main", [x]):
        bb.emit(relax.op.matmul(x))
    with pytest.raises(TypeCheckError, match="wanted tensors"), bb.function("main", [x]):
        bb.emit_te(lambda a: 1, x)
    with bb.function("main", [x]):
        bb.emit_func_output(x)
    assert next(iter(bb.get().functions)).name == "main"
