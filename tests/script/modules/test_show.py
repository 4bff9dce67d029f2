"""`show`, `.script()` and `.show()` of modules from anywhere: scripts, importers, stages of the pipeline."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import legato
from legato.base.target import target
from legato.driver import CompileOptions, lower_module
from legato.infer.infer import infer
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Expr, Function, Let, Var
from legato.ir.module import Module
from legato.ir.types import tensor_type
from legato.ops import table
from legato.script import parse, show
from legato.tir.stmt import Func
from legato.transform.pass_ import Observer, run
from tests.script.modules.random_modules import script
from tests.script.modules.test_modules import Mlp
from tests.script.modules.test_print_graph import BOTH, LETS
from tests.steps import steps

DATA = """#[version = "0.0.5"]
def @sum(%xs: List[Tensor[(n,), float32]], %x: Tensor[(n,), float32]) -> Tensor[(n,), float32] {
  match (%xs) { Cons(%y, %rest) => @sum(%rest, %x + %y), Nil => %x }
}
def @main(%x: Tensor[(n,), float32], %k: int32) {
  let %cell = ref(Nil());
  let %double = fn (%z: Tensor[(n,), float32]) { %z + %z };
  let %_ = if (%k < 3) { ref_write(%cell, Cons(%double(%x), Nil())) } else { () };
  @sum(ref_read(%cell), %x)
}
"""


def network() -> onnx.ModelProto:
    """A convolution, pooling, and a product whose shape the model computes."""
    rng = np.random.default_rng(0)
    w = numpy_helper.from_array(rng.standard_normal((4, 1, 3, 3)).astype(np.float32), "w")
    m = numpy_helper.from_array(rng.standard_normal((4, 5)).astype(np.float32), "m")
    axes = numpy_helper.from_array(np.array([2, 3]), "axes")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("ReduceMean", ["p", "axes"], ["g"], keepdims=0), helper.make_node("MatMul", ["g", "m"], ["d"]),
        helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Softmax", ["d"], ["y"]),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 8, 8])
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5]),
               helper.make_tensor_value_info("s", TensorProto.INT64, [4])]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [x], outputs, [w, m, axes])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def stages(module: Module) -> dict[str, Module]:
    """The module after each pass, after lowering, and the loops that it becomes."""
    names = [*(p.name for p in CompileOptions(target("host")).pipeline), "lower", "tir"]
    options = CompileOptions(target("host"), keep=frozenset(names))
    observer = Observer(keep=options.keep)
    lower_module(run(module, options.pipeline, observer), options, observer)
    return observer.kept


@pytest.mark.parametrize("source", ["both", "lets", "onnx", "data"])
def test_every_stage_comes_back(source: str) -> None:
    made = {"both": lambda: parse(BOTH), "lets": lambda: legato.parse(f'#[version = "0.0.5"]\n{LETS}'),
            "onnx": lambda: legato.from_onnx(network()), "data": lambda: legato.parse(DATA)}  # fmt: skip
    module = infer(made[source]())
    for name, stage in {"": module, **stages(module)}.items():
        arrays: dict[str, Any] = {}
        text = stage.script(arrays)
        assert alpha_equal(parse(text, constants=arrays), infer(stage)), f"{name}\n{text}"


def test_what_comes_back_computes_the_same() -> None:
    module = legato.from_onnx(network())
    x = np.random.default_rng(1).standard_normal((3, 1, 8, 8)).astype(np.float32)
    wanted = legato.compile(module)(x)
    for again in (parse(show(module)), parse(show(stages(infer(module))["fuse"]))):
        found = legato.compile(again)(x)
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_modules_of_both_levels_come_back() -> None:
    """The seed's module, and random ones."""
    for module in (Mlp, *(parse(script(seed)) for seed in range(12))):
        again = parse(show(module))
        assert alpha_equal(again, module), show(module)
    x, *weights = (np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in MLP)
    assert np.array_equal(legato.compile(parse(show(Mlp)))(x, *weights), legato.compile(Mlp)(x, *weights))


MLP = [(3, 784), (784, 256), (256,), (256, 10), (10,)]


def chain(count: int, *, bound: bool) -> Module:
    """A chain of calls, bound by lets or not."""
    x, tanh = Var("x", ty=tensor_type((4,))), table()["tanh"]
    if bound:
        variables = [Var("v") for _ in range(count)]
        body: Expr = variables[-1]
        for var, arg in zip(reversed(variables), reversed([x, *variables[:-1]]), strict=True):
            body = Let(var, Call(tanh, (arg,)), body)
    else:
        body = x
        for _ in range(count):
            body = Call(tanh, (body,))
    return infer(Module.from_expr(Function((x,), body)))


@pytest.mark.parametrize("bound", [True, False])
def test_work_grows_with_the_program(bound: bool) -> None:
    texts = [show(chain(n, bound=bound)) for n in (200, 400)]
    written = [steps(lambda n=n: show(chain(n, bound=bound))) for n in (200, 400)]
    read = [steps(lambda t=t: parse(t)) for t in texts]
    assert written[1] < 2.2 * written[0]
    assert read[1] < 2.2 * read[0]


def test_work_grows_with_the_blocks() -> None:
    """Names that are known do not make blocks slower."""

    def blocks_of(count: int) -> str:
        blocks = "".join(
            f"    if c:\n        y = R.exp(x)\n    else:\n        y = x\n    with R.dataflow():\n"
            f"        z{n} = R.add(x, y)\n        R.output(z{n})\n    x = z{n}\n    v{n} = x\n"
            for n in range(count)
        )
        return f'@R.function\ndef f(x: R.Tensor((4,), "float32"), c: R.Tensor((), "bool")):\n{blocks}    return x\n'

    parse(blocks_of(2))
    counts = [steps(lambda n=n: parse(blocks_of(n))) for n in (40, 80)]
    assert counts[1] < 2.2 * counts[0]


def test_a_module_and_its_functions_show_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    module = parse(BOTH)
    module.show()
    assert capsys.readouterr().out == module.script() == show(module)
    kernel, main = module["double"], legato.parse('#[version = "0.0.5"]\ndef @main(%x: float32) { exp(%x) }')["main"]
    assert isinstance(kernel, Func)
    assert isinstance(main, Function)
    kernel.show()
    assert capsys.readouterr().out == show(kernel) == kernel.script()
    assert "return R.exp(x)" in main.script()


class Terminal(io.StringIO):
    """What says that it is one."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_colours_unless_it_shall_not(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse(BOTH)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdout", out := Terminal())
    module.show()
    assert "\x1b[" in out.getvalue()
    assert re.sub("\x1b\\[[0-9;]*m", "", out.getvalue()) == show(module)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout", out := Terminal())
    module.show()
    assert out.getvalue() == show(module)
