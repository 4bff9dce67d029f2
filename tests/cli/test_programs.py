"""Programs in Relay that do what no ONNX model does, at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.test_cli import save_onnx

DATA = """#[version = "0.0.5"]
type Pair { Pair(float32, Tensor[(2,), float32]) }
def @take(%p: Pair, %x: float32) { match (%p) { Pair(%a, %b) => %a + %x } }
def @main(TAKES) { GIVES }
"""


def test_programs_with_data_types(call: Any) -> None:
    """Their inputs are made in Python alone; their outputs are told."""
    Path("takes.relay").write_text(DATA.replace("TAKES", "%x: float32, %p: Pair").replace("GIVES", "@take(%p, %x)"))
    done = call("compile", "takes.relay", "-o", "takes.legato", "--json").json
    assert (done["inputs"], done["outputs"]) == (["x: float32[]", "p: Pair"], ["output: float32[]"])
    assert "no inputs; wanted x: float32[], p: Pair" in call("run", "takes.relay").err
    for verb in ("run", "verify", "bench", "profile"):
        error = call(verb, "takes.relay", "--fill", "ones").err
        assert "inputs that are no arrays: p: Pair" in error
    Path("gives.relay").write_text(DATA.replace("TAKES", "").replace("GIVES", "(1f, Pair(2f, ones(shape=[2])))"))
    done = call("run", "gives.relay", "--json").json
    assert done["outputs"][1] == {"name": "output1", "type": "Pair", "value": "Pair(2.0, float32[2])"}
    assert "output1  Pair       Pair(2.0, float32[2])" in call("run", "gives.relay").out
    assert "cannot hold values of data types: output1: Pair" in call("run", "gives.relay", "-o", "out.npz").err
    assert "values of data types are not compared: output1: Pair" in call("verify", "gives.relay").err


def test_outputs_whose_extents_the_program_tells(call: Any) -> None:
    Path("grows.relay").write_text("""#[version = "0.0.5"]
def @grown(%x: Tensor[(?, 2), float32], %i: int32) -> Tensor[(?, 2), float32] {
  if (%i < 1) { %x } else { @grown(concatenate((%x, %x)), %i - 1) }
}
def @main(%x: Tensor[(3, 2), float32], %i: int32) { (@grown(%x, %i), %x + 1f) }
""")
    outputs = {o["name"]: o["type"] for o in call("run", "grows.relay", "--fill", "ones", "--json").json["outputs"]}
    assert outputs == {"output0": "float32[6, 2]", "output1": "float32[3, 2]"}
    found = call("verify", "grows.relay", "--fill", "ones", "--json").json
    assert found["holds"]
    assert {o["name"]: o["type"] for o in found["outputs"]} == outputs


def test_check_of_what_is_not_compiled(call: Any) -> None:
    head = '#[version = "0.0.5"]\n'
    Path("gives.relay").write_text(head + "def @main(%x: float32) { fn (%y: float32) { %x * %y } }")
    (reason,) = call("check", "gives.relay", "--json").json["unsupported"]
    wanted = "@main takes or gives functions, which compiled code cannot pass to or from Python"
    assert reason["reason"] == f"{wanted}; result : fn (float32) -> float32"
    Path("loops.relay").write_text(head + "kernel @main(x: Buffer[(4), float32]) { x[0] = 1.0f; }")
    assert "@main is a loop-level function" in call("check", "loops.relay").err


def test_check_names_clauses_that_are_never_reached(call: Any) -> None:
    """Such a program is as good as another: it is compiled, and nobody is warned."""
    head = '#[version = "0.0.5"]\n'
    clauses = "Some(%x) => %x, None => 0, Some(_) => 1, _ => 2"
    Path("dead.relay").write_text(f"{head}def @main(%n: int32) {{ match (Some(%n)) {{ {clauses} }} }}")
    found = call("check", "dead.relay", "--json").json
    assert [(c["function"], c["pattern"]) for c in found["unreached"]] == [("main", "Some(_)"), ("main", "_")]
    assert found["unsupported"] == []
    assert "never reached  clause Some(_) in @main, at dead.relay:2:" in call("check", "dead.relay").out


def test_programs_that_call_packed_functions(call: Any) -> None:
    """They can be checked, but there is nothing to give them at the command line."""
    Path("calls.relay").write_text("""#[version = "0.0.5"]
def @main(%x: float32) { let %_ = print(%x); call_packed(%x, name="my.f", shapes=[[]], dtypes=[float32]) }
""")
    assert call("check", "calls.relay", "--json").json["packed"] == ["my.f"]
    assert "0 operators run by their reference. It calls the packed functions my.f." in call("check", "calls.relay").out
    for verb in (["run"], ["compile", "-o", "calls.legato"]):
        assert "packed functions that are not given: 'my.f'" in call(verb[0], "calls.relay", *verb[1:]).err


# ------------------------------------------------------------------ every tensor


def test_run_dumps_every_tensor(call: Any, here: Path) -> None:
    done = call("run", "mlp.relay", "--fill", "random", "--dim", "n=2", "--dump", "all", "--json")
    assert done.code == 0
    manifest = json.loads((here / "all/manifest.json").read_text())
    assert (manifest["format"], manifest["version"]) == ("legato tensors", 1)
    assert done.json["tensors"] == manifest["tensors"]
    entries = [*manifest["inputs"], *manifest["tensors"], *manifest["outputs"]]
    assert sorted(p.name for p in (here / "all").iterdir()) == sorted([*(e["file"] for e in entries), "manifest.json"])
    x, w, product, relu, output = (np.load(here / "all" / e["file"]) for e in entries)
    np.testing.assert_allclose(product, x @ w.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(relu, np.maximum(product, 0))
    np.testing.assert_array_equal(output, relu)
    assert [(e["operators"], e["inputs"], e["place"]) for e in manifest["tensors"]] == [
        (["nn.dense"], ["x", "w"], "mlp.relay:4:11"), (["nn.relu"], ["x1"], "mlp.relay:4:3"),
    ]  # fmt: skip
    shown = call("run", "mlp.relay", "--fill", "zeros", "--dump", "more")
    assert shown.out.splitlines()[-1] == "written  more/manifest.json, and 2 tensors"


def test_dumps_of_bfloat16_can_be_read(call: Any, here: Path) -> None:
    Path("half.relay").write_text("""#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), bfloat16]) { cast(nn.relu(%x), dtype="float32") }
""")
    assert call("run", "half.relay", "--fill", "random", "--dump", "all").code == 0
    manifest = json.loads((here / "all/manifest.json").read_text())
    x, relu, wide = (np.load(here / "all" / e["file"]) for e in [*manifest["inputs"], *manifest["tensors"]])
    assert [e["type"] for e in manifest["tensors"]] == ["bfloat16[2, 3]", "float32[2, 3]"]
    assert {x.dtype, relu.dtype} == {np.dtype(np.float32)}
    np.testing.assert_array_equal(relu, np.maximum(x, 0))
    np.testing.assert_array_equal(relu, wide)


def test_dumps_of_onnx_models_name_their_nodes(call: Any, here: Path) -> None:
    save_onnx(operators=("Relu", "Softmax"))
    done = call("run", "model.onnx", "--fill", "random", "--dump", "all", "--json").json
    assert [(e["operators"], e["place"]) for e in done["tensors"]] == [
        (["matmul"], "first"), (["nn.relu"], "node0"), (["nn.softmax"], "node1"),
    ]  # fmt: skip
    assert json.loads((here / "all/manifest.json").read_text())["outputs"][0]["name"] == "y"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mlp.relay", "--fill", "ones", "--dump", "."), ". is there already"),
        (("mlp.relay", "--fill", "ones", "--dump", "mlp.relay"), "mlp.relay is there already"),
        (("mlp.relay", "--dump", "new"), "no inputs; wanted x: float32[n, 4]"),
        (("mlp.legato", "--fill", "ones", "--dump", "new"), "mlp.legato is compiled, and computes only what"),
        (("mlp.relay", "--fill", "ones", "--dump", "new", "-o", "y.npz"), "--dump writes the outputs as well: -o"),
    ],
)
def test_dumps_that_cannot_be(arguments: tuple[str, ...], message: str, call: Any, here: Path) -> None:
    done = call("run", *arguments)
    assert done.code in (1, 2)
    assert message in done.err
    assert not (here / "new").exists()
