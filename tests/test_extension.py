"""An operator and a pass of a user's own, each in one file outside the package, with the same rights as ours."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from onnx import TensorProto, helper

import legato
from legato.arith.expr import Var
from legato.base.target import host
from legato.driver import CompileOptions, compile_module
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.equal import alpha_equal
from legato.ir.module import Module
from legato.pipelines import DEFAULT
from legato.transform.pass_ import run

OPERATOR = '''
"""shrink(x, by): x moved towards zero by `by`, zero where it is nearer than that."""

from dataclasses import dataclass

import numpy as np

from legato.arith.expr import lt, select
from legato.ir.op import Fusion, Op, Sample
from legato.te import math as te
from legato.te.tensor import compute


@dataclass(frozen=True, slots=True)
class ShrinkAttrs:
    by: float = 0.5


def reference(x, attrs):
    return np.where(np.abs(x) <= attrs.by, 0, x - np.sign(x) * x.dtype.type(attrs.by)).astype(x.dtype)


def loops(x, attrs, out_type):
    def element(*i):
        v, by = x[i], te.literal(attrs.by, x)
        zero = te.literal(0, x)
        return select(lt(by, v), v - by, select(lt(v, zero - by), v + by, zero))

    return compute(x.shape, element, name="shrink")


shrink = Op(
    name="my.shrink",
    args=("data",),
    attrs=ShrinkAttrs,
    type_rel=lambda relation, x, attrs: x,
    reference=reference,
    compute=loops,
    fusion=Fusion.ELEMWISE,
    samples=(Sample((((3, 5), "float32"),)),),
    doc="x moved towards zero.",
)
'''

PASS = '''
"""my.shrink by 0 is its argument."""

from dataclasses import dataclass, replace

from legato.ir.expr import Call, Function, Let
from legato.ir.op import Op
from legato.ir.visit import nodes
from legato.transform.pass_ import FunctionPass


@dataclass(frozen=True, slots=True)
class DropShrink(FunctionPass):
    name = "drop-shrink"

    def function(self, func, mod):
        rebuilt = {}
        for node in nodes(func.body):
            children = tuple(rebuilt.get(id(c), c) for c in node.children())
            new = node if all(a is b for a, b in zip(children, node.children())) else node.with_children(children)
            if isinstance(new, Call) and isinstance(new.op, Op) and new.op.name == "my.shrink" and new.attrs.by == 0:
                new = new.args[0]
            rebuilt[id(node)] = new
        return replace(func, body=rebuilt[id(func.body)])
'''

TEXT = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, 5), float32]) { nn.relu(my.shrink(add(%x, %x), by=0.25)) }\n'
X = np.linspace(-1, 1, 15, dtype=np.float32).reshape(3, 5)


def expected(x: np.ndarray, by: float) -> np.ndarray:
    return np.maximum(np.where(np.abs(2 * x) <= by, 0, 2 * x - np.sign(x) * by), 0)


def script(tmp_path: Path, name: str, text: str) -> ModuleType:
    """A user's own file, imported from outside the package."""
    (tmp_path / f"{name}.py").write_text(text)
    spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def shrink(tmp_path: Path) -> object:
    return script(tmp_path, "my_shrink", OPERATOR).shrink


def test_an_operator_in_the_text_format(shrink: object) -> None:
    mod = legato.parse(TEXT, ops=[shrink])
    assert alpha_equal(legato.parse(str(mod), ops=[shrink]), mod)
    np.testing.assert_allclose(evaluate(mod, [X]), expected(X, 0.25), rtol=1e-6)
    exe = legato.compile(mod, ops=[shrink])
    assert exe.stats["host_operators"] == 0
    assert exe.stats["kernels"] == 1  # fused with what stands around it
    np.testing.assert_allclose(exe(X), expected(X, 0.25), rtol=1e-6)
    assert legato.verify(mod, [X], ops=[shrink])


def test_an_operator_through_the_builder(shrink: object) -> None:
    b = Builder()
    x = b.var("x", (Var("n", lo=0), 5))
    mod = Module.from_expr(b.function([x], b.nn.relu(b.call(shrink, b.add(x, x), by=0.25))))
    np.testing.assert_allclose(legato.compile(mod, ops=[shrink])(X), expected(X, 0.25), rtol=1e-6)


def test_an_operator_in_an_onnx_domain(shrink: object) -> None:
    nodes = [helper.make_node("Add", ["x", "x"], ["s"]),
             helper.make_node("Shrink", ["s"], ["t"], domain="my", by=0.25),
             helper.make_node("Relu", ["t"], ["y"])]  # fmt: skip
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ("n", 5)) for name in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=opsets, ir_version=8)

    def convert(b, x, *, by: float = 0.5):  # type: ignore[no-untyped-def]  # as a user writes it
        return b.call(shrink, x, by=by)

    exe = legato.compile(model, custom={"my::Shrink": convert}, ops=[shrink])
    np.testing.assert_allclose(exe(X), expected(X, 0.25), rtol=1e-6)


def test_a_pass(shrink: object, tmp_path: Path) -> None:
    drop = script(tmp_path, "my_pass", PASS).DropShrink()
    mod = legato.parse(TEXT.replace("0.25", "0.0"), ops=[shrink])
    after = run(mod, [drop])
    assert "my.shrink" not in str(after)
    np.testing.assert_array_equal(evaluate(after, [X]), evaluate(mod, [X]))
    options = CompileOptions(host(), passes=(drop, *DEFAULT), keep=frozenset({"drop-shrink"}), ops=(shrink,))
    exe = compile_module(mod, options).executable
    assert "my.shrink" not in exe.module_after("drop-shrink")
    np.testing.assert_allclose(exe(X), expected(X, 0.0), rtol=1e-6)
