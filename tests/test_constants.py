"""Inputs that have their values for good: ONNX models and programs in Relay, from Python and on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import legato
from legato.base.errors import CompileError
from legato.cli import main
from legato.interp import evaluate
from tests.frontend.onnx.peer import model, value

RELAY = """#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(m, 4), float32], %k: int64) {
  (add(matmul(%x, transpose(%w)), cast(%k, dtype="float32")), ones(shape=[m]))
}"""
X = np.arange(12, dtype=np.float32).reshape(3, 4)
W = np.eye(4, dtype=np.float32)[:2]


def test_a_program_in_relay() -> None:
    module = legato.parse(RELAY)
    exe = legato.compile(module, constants={"w": W, "k": 5})
    assert [str(i) for i in exe.inputs] == ["x: float32[n, 4]"]
    assert [o.shape for o in exe.outputs] == [("n", 2), (2,)]
    for got, wanted in zip(exe(X), evaluate(module, [X, W, np.int64(5)]), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"z": 1}, "constants: the program has no input 'z'\n  hint: its inputs: x, w, k"),
        ({"k": 1.5}, "constants: 'k' is float64[], but the input is int64"),
        (
            {"w": np.ones((2, 3), np.float32)},
            "constants: 'w' is float32[2, 3], but the input is Tensor[(m, 4), float32]",
        ),
        ({"w": W[0]}, "constants: 'w' is float32[4], but the input is Tensor[(m, 4), float32]"),
    ],
)
def test_refused(constants: dict[str, Any], message: str) -> None:
    with pytest.raises(CompileError) as caught:
        legato.compile(legato.parse(RELAY), constants=constants)
    assert str(caught.value).endswith(message)


@pytest.fixture
def reshape(tmp_path: Path) -> Path:
    """y = Reshape(x, s)."""
    node = helper.make_node("Reshape", ["x", "s"], ["y"])
    made = model([node], [value("x", ("n", 4)), value("s", (2,), "int64")])
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    np.save(tmp_path / "s.npy", np.array([2, -1]))
    np.save(tmp_path / "x.npy", X)
    return tmp_path


def test_an_onnx_model(reshape: Path) -> None:
    exe = legato.compile(reshape / "m.onnx", constants={"s": [2, -1]})
    assert [i.name for i in exe.inputs] == ["x"]
    np.testing.assert_array_equal(exe(X[:2]), X[:2].reshape(2, 4))
    with pytest.raises(CompileError, match="constants: the model has no input 't'\n  hint: its inputs: x, s"):
        legato.compile(reshape / "m.onnx", constants={"t": 1})


@pytest.mark.parametrize(
    "verb", [["verify"], ["run", "-i", "x.npy"], ["check"], ["show"], ["compile", "-o", "m.legato"]]
)
def test_on_the_command_line(
    verb: list[str], reshape: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(reshape)
    assert main([verb[0], "m.onnx", "--constant", "s=s.npy", *verb[1:]]) == 0
    capsys.readouterr()
    if verb[0] == "compile":
        assert [i.name for i in legato.load("m.legato").inputs] == ["x"]
        assert main(["run", "m.legato", "--constant", "s=s.npy", "-i", "x.npy"]) == 2
        assert "m.legato is compiled already: --constant would have no effect" in capsys.readouterr().err


def test_benchmarks_give_constants_to_other_engines(
    reshape: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(reshape)
    few = ["--rounds", "1", "--max-rounds", "1", "--block", "0.001", "--json"]
    assert main(["bench", "m.onnx", "--constant", "s=s.npy", "--vs", "onnxruntime", "-i", "x.npy", *few]) == 0
    assert json.loads(capsys.readouterr().out)["agreement"]["onnxruntime"]["agrees"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("s", "wanted NAME=FILE such as k=k.npy, or NAME=NUMBER"),
        ("s=missing.npy", "missing.npy"),
        ("s=two.npz", "two.npz holds arrays by name, wanted one"),
        ("s=3", "--constant: 's' is int64[], but the input is Tensor[(2,), int64]"),
    ],
)
def test_wrong_arguments(
    given: str, message: str, reshape: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(reshape)
    np.savez(reshape / "two.npz", a=X, b=X)
    try:
        code = main(["run", "m.onnx", "--constant", given, "-i", "x.npy"])
    except SystemExit as end:
        code = end.code
    assert code
    assert message in capsys.readouterr().err
