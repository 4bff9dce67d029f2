"""Code generators of others, under Relay's names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import legato
from legato import relay
from legato.base.errors import CompileError, GeneratorError, UnsupportedError
from legato.relay import _external, transform
from legato.relay.backend.contrib.uma import PassPhase, UMABackend
from legato.relay.dataflow_pattern import is_constant, is_op, wildcard
from legato.relay.ir import register_op_attr
from legato.relay.op.contrib import partition_for, partition_for_ccompiler, partition_for_onnxruntime
from legato.relay.op.contrib.register import get_pattern_table, register_pattern_table
from tests.generators.samples import Interpreting

X = np.array([[-1, 2], [3, -4]], np.float32)


@pytest.fixture(autouse=True)
def nothing_registered() -> Iterator[None]:
    """Every test begins and ends with nothing that is registered."""
    _external._registered.clear()
    yield
    _external._registered.clear()


def network() -> relay.IRModule:
    """relu(x·wᵀ) twice, and a sum."""
    x, w = relay.var("x", shape=(2, 2)), relay.var("w", shape=(2, 2))
    hidden = relay.nn.relu(relay.nn.dense(x, w))
    return relay.IRModule.from_expr(relay.Function([x, w], relay.add(relay.nn.relu(relay.nn.dense(hidden, w)), hidden)))


def wanted() -> np.ndarray:
    """What it gives."""
    found = legato.compile(network())(X, X)
    assert isinstance(found, np.ndarray)
    return found


def dense_relu() -> Any:
    return is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard()))


def test_the_four_passes() -> None:
    steps = [
        transform.MergeComposite([("mine.dense_relu", dense_relu(), lambda call: True)]),
        transform.AnnotateTarget("mine"),
        transform.MergeCompilerRegions(),
        transform.PartitionGraph(),
    ]
    assert [s.info.name for s in steps] == [
        "MergeComposite",
        "AnnotateTargetFunc",
        "MergeCompilerRegions",
        "PartitionGraph",
    ]
    mod = transform.Sequential(steps)(network())
    func = mod["tvmgen_default_mine_main_0"]
    assert func.attrs["Compiler"] == "mine"
    assert func.attrs["global_symbol"] == "tvmgen_default_mine_main_0"
    assert func.attrs["Primitive"] == func.attrs["Inline"] == 1
    assert "Composite" in str(func)
    assert "add" in str(mod["main"])
    got = relay.build(mod, generators=[Interpreting("mine")])(X, X)
    np.testing.assert_allclose(got, wanted(), rtol=1e-5)
    names = transform.Sequential([*steps[:3], transform.PartitionGraph("unit")])(network())
    assert "tvmgen_unit_mine_main_0" in names


def test_annotations_by_hand() -> None:
    x = relay.var("x", shape=(2, 2))
    begun = relay.annotation.compiler_begin(x, "mine")
    ended = relay.annotation.compiler_end(relay.exp(begun), compiler="mine")
    mod = transform.PartitionGraph()(relay.IRModule.from_expr(relay.tanh(ended)))
    assert len(mod.functions) == 2
    np.testing.assert_allclose(relay.build(mod, generators=[Interpreting("mine")])(X), np.tanh(np.exp(X)), rtol=1e-5)


def test_what_is_registered() -> None:
    made: list[str] = []

    @relay.register_func("relay.ext.mine")
    def compile_mine(function: Any) -> Any:
        made.append(function.attrs["global_symbol"])
        return Interpreting("mine").compile(function)

    @register_op_attr("nn.dense", "target.mine")
    def takes_dense(call: Any) -> bool:
        return len(call.args) == 2

    register_op_attr("add", "target.mine", True)
    register_op_attr("nn.relu", "target.mine", False)
    register_op_attr("nn.relu", "target.mine", True, level=9)
    steps = [transform.AnnotateTarget(["mine"]), transform.MergeCompilerRegions(), transform.PartitionGraph()]
    mod = transform.Sequential(steps)(network())
    np.testing.assert_allclose(relay.build(mod)(X, X), wanted(), rtol=1e-5)
    assert len(made) == 3
    assert relay.get_global_func("relay.ext.mine") is not None
    with pytest.raises(CompileError, match="registered already"):
        relay.register_func("relay.ext.mine", compile_mine)
    relay.register_func("relay.ext.mine", lambda function: None, override=True)
    with pytest.raises(GeneratorError, match="generator 'mine', function @tvmgen_default_mine_main_0: compile gave"):
        relay.build(mod)


def test_what_cannot_be_registered() -> None:
    with pytest.raises(UnsupportedError, match="packed="):
        relay.register_func("my.function", len)
    with pytest.raises(UnsupportedError, match="is fixed"):
        register_op_attr("nn.dense", "TOpPattern", 1)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="no operator"):
        register_op_attr("nn.denser", "target.mine", True)
    assert relay.get_global_func("relay.ext.nobody", allow_missing=True) is None
    with pytest.raises(CompileError, match="no function is registered"):
        relay.get_global_func("relay.ext.nobody")
    with pytest.raises(AttributeError, match="there is no pass MarkCompilerFunctionsAsExtern: "):
        transform.MarkCompilerFunctionsAsExtern  # noqa: B018
    register_op_attr("nn.dense", "target.mine", True)
    mod = transform.Sequential([transform.AnnotateTarget("mine"), transform.PartitionGraph()])(network())
    with pytest.raises(UnsupportedError, match="there is none"):
        relay.build(mod)


def test_tables_of_patterns() -> None:
    assert get_pattern_table("mine") is None

    @register_pattern_table("mine")
    def table() -> list[Any]:
        return [("mine.dense_relu", dense_relu())]

    [(name, pattern)] = get_pattern_table("mine") or []
    assert name == "mine.dense_relu"
    assert pattern.match(relay.nn.relu(relay.nn.dense(relay.var("x", shape=(2, 2)), relay.var("w", shape=(2, 2)))))
    relay.register_func("relay.ext.mine", Interpreting("mine").compile)
    mod = partition_for("mine", network())
    np.testing.assert_allclose(relay.build(mod)(X, X), wanted(), rtol=1e-5)
    assert 'Composite="mine.dense_relu"' in str(mod)


@pytest.mark.parametrize("partition", [partition_for_onnxruntime, partition_for_ccompiler])
def test_generators_of_the_package(partition: Any) -> None:
    mod = partition(network(), {"w": X})
    assert len(mod["main"].params) == 1
    assert len(mod.functions) == 2
    np.testing.assert_allclose(relay.build(mod)(X), wanted(), rtol=1e-5)


def test_outlining_and_inlining() -> None:
    text = """def @main(%x: Tensor[(2, 2), float32]) {
      let %f = fn (%y: Tensor[(2, 2), float32], Compiler="mine", global_symbol="theirs") { exp(%y) };
      %f(%x)
    }"""
    mod = relay.fromtext('#[version = "0.0.5"]\n' + text)
    same = transform.OutlineCompilerFunctionsWithExistingGlobalSymbols("other")(mod)
    assert len(same.functions) == 1
    outlined = transform.OutlineCompilerFunctionsWithExistingGlobalSymbols("mine")(mod)
    assert outlined["theirs"].attrs["Compiler"] == "mine"
    back = transform.InlineCompilerFunctionsBoundTo([outlined.get_global_var("theirs")])(outlined)
    assert len(back.functions) == 1
    np.testing.assert_allclose(relay.build(back)(X), np.exp(X), rtol=1e-6)
    with pytest.raises(CompileError, match="no function for a generator"):
        transform.InlineCompilerFunctionsBoundTo([outlined.get_global_var("main")])(outlined)


class Vanilla(UMABackend):
    """A backend for products with a rectifier."""

    def __init__(self, merge: bool = True) -> None:
        super().__init__(merge)
        self._register_pattern("dense_relu", dense_relu())
        self._register_pattern("double", is_op("add")(wildcard(), is_constant()), lambda call: False)
        self._register_relay_pass(PassPhase.PRE_PARTITIONING, transform.FoldConstant())
        self._register_codegen("c")

    @property
    def target_name(self) -> str:
        """Its name."""
        return "vanilla"


@pytest.mark.parametrize(("merge", "count"), [(True, 2), (False, 3)])
def test_uma(merge: bool, count: int) -> None:
    backend = Vanilla(merge)
    mod = backend.partition(network(), {"w": X})
    assert len(mod.functions) == count
    with pytest.raises(UnsupportedError, match="there is none"):
        relay.build(mod)
    backend.register()
    np.testing.assert_allclose(relay.build(mod)(X), wanted(), rtol=1e-5)
    with pytest.raises(UnsupportedError, match="passes over loops cannot be registered: a backend is given functions"):
        backend._register_tir_pass(PassPhase.TIR_PHASE_0, lambda func: func)
    with pytest.raises(UnsupportedError, match="strategies of operators cannot be registered: a backend schedules"):
        backend._register_operator_strategy("nn.dense", None)
    with pytest.raises(UnsupportedError, match="the target attribute 'memory' cannot be registered: targets name"):
        backend._register_target_attr("memory", 3)
    with pytest.raises(CompileError, match=r"the phase of a Relay pass: got <PassPhase.TIR_PHASE_0"):
        backend._register_relay_pass(PassPhase.TIR_PHASE_0, transform.FoldConstant())
    with pytest.raises(CompileError, match="a Relay pass: got 3"):
        backend._register_relay_pass(PassPhase.PRE_PARTITIONING, 3)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="no code is made as 'llvm'"):
        backend._register_codegen("llvm")
