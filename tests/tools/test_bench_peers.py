"""Frameworks in processes of their own: what they read, what they answer, and that they take part in a benchmark."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from legato.base.errors import RunError
from legato.bench.run import bench
from tools.bench.entries import ENTRIES
from tools.bench.peers.graph import ONNX, read, write
from tools.bench.peers.process import FRAMEWORKS, Framework, peer_engine
from tools.bench.report import NAMES

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

NUMPY = Framework("tests.tools.numpy_peer", Path(sys.executable))
RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((3, 4), np.float32)
X = RNG.standard_normal((2, 4), np.float32)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """relu(x @ (W * 2).T + 1), whose constants are there to be folded, and whose weight lies outside of the file."""
    from onnx import helper, numpy_helper

    weight, two, bias = (
        numpy_helper.from_array(array, name)
        for array, name in ((WEIGHT, "/w"), (np.float32(2), "two"), (np.ones(3, np.float32), "b"))
    )
    nodes = [
        helper.make_node("Mul", ["/w", "two"], ["/w2"]),
        helper.make_node("Gemm", ["x", "/w2", "b"], ["/sum"], transB=1),
        helper.make_node("Relu", ["/sum"], ["y"]),
    ]
    values = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, k]) for n, k in (("x", 4), ("y", 3))]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [weight, two, bias])
    made = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, size_threshold=0, location="weights")
    return path


def test_a_graph_comes_simplified_and_whole(model: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "plain").mkdir()
    write(model, folder)
    graph = read(folder)
    assert (graph.inputs, graph.outputs) == ({"x": [2, 4]}, ["y"])
    assert [node.op for node in graph.nodes] == ["Gemm", "Relu"]
    assert graph.nodes[0].attrs["transB"] == 1
    np.testing.assert_array_equal(graph.weights[graph.nodes[0].inputs[1]], WEIGHT * 2)
    assert not (folder / "weights").exists()
    onnx.checker.check_model(folder / ONNX)


def test_a_framework_takes_part_in_a_benchmark(model: Path) -> None:
    others = {"numpy": lambda feeds, threads, fixed: peer_engine("numpy", NUMPY, model, feeds, threads, fixed)}
    result = bench(model, vs=["numpy"], others=others, threads=1, inputs={"x": X}, rounds=2, max_rounds=2, block=0.001)
    assert result.versions["numpy"] == f"{np.__version__} on 1"
    assert result.agrees
    assert result.engines["numpy"].median > 0


def test_calls_and_blocks_are_the_frameworks_own(model: Path) -> None:
    engine = peer_engine("numpy", NUMPY, model, {"x": X}, 2, True)
    np.testing.assert_allclose(engine.call()[0], np.maximum(X @ (WEIGHT * 2).T + 1, 0), rtol=1e-5)
    assert all(seconds > 0 for seconds in engine.block(0.001))


@pytest.mark.parametrize(
    ("option", "why"), [("fail", "Refused: of which the last says why"), ("end", "the process ended with code 3")]
)
def test_one_that_refuses_says_why(model: Path, option: str, why: str) -> None:
    broken = Framework(NUMPY.module, NUMPY.python, option)
    with pytest.raises(RunError, match=why):
        peer_engine("numpy", broken, model, {"x": X}, 1, True)


def test_one_that_is_not_there_says_what_makes_it(model: Path, tmp_path: Path) -> None:
    absent = Framework(NUMPY.module, tmp_path / ".venv-numpy/bin/python")
    with pytest.raises(RunError, match=r"numpy is not installed\n  hint: make \.venv-numpy/\.made"):
        peer_engine("numpy", absent, model, {"x": X}, 1, True)


def test_symbolic_shapes_are_refused(model: Path) -> None:
    with pytest.raises(RunError, match="fixed shapes alone"):
        peer_engine("numpy", NUMPY, model, {"x": X}, 1, False)


def test_each_framework_has_a_module_a_rule_and_a_name() -> None:
    makefile = Path("Makefile").read_text(encoding="utf-8")
    for name, framework in FRAMEWORKS.items():
        assert name in NAMES
        assert Path(framework.module.replace(".", "/")).with_suffix(".py").exists()
        assert f"{framework.python.parents[1].name}/.made" in makefile
    assert set(FRAMEWORKS) < set(ENTRIES[0].others())
