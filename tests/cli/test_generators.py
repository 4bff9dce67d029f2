"""--generators: parts of models that others compile and run, by name or from a file of code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

MODEL = """#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) {
  let %h = nn.relu(nn.dense(%x, %w));
  %h + sort(%h)
}
"""
OWN = """
import numpy as np
from legato.generators import CSource


class Wrong(CSource):
    def compile(self, function):
        run = super().compile(function)
        return lambda *arrays: np.asarray(run(*arrays)) + np.float32(function.attrs["global_symbol"] == "wrong_main_1")


engine = again = Wrong(name="wrong", operators=frozenset({"nn.dense", "nn.relu", "add"}))
"""


@pytest.fixture(autouse=True)
def model(here: Path) -> None:
    Path("model.relay").write_text(MODEL)
    Path("own.py").write_text(OWN)
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    np.savez("x.npz", x=x, w=np.linspace(2, -1, 12, dtype=np.float32).reshape(3, 4))


def test_models_are_cut_compiled_kept_and_run(call: Any) -> None:
    assert call("run", "model.relay", "-i", "x.npz", "-o", "plain.npz").code == 0
    for name in ("c", "onnxruntime"):
        done = call("compile", "model.relay", "-o", "m.legato", "--generators", name, "--shape", "n=1,2", "--json").json
        assert done["inputs"][0] == "x: float32[n, 4] where n = 1 or n = 2"
        assert set(done["by_reference"]) == {"call_pure_packed"}
        refused = call("run", "m.legato", "-i", "x.npz")
        assert f"need the generators '{name}'\n  hint: --generators … gives them" in refused.err
        assert call("run", "m.legato", "-i", "x.npz", "-o", "y.npz", "--generators", name).code == 0
        np.testing.assert_allclose(np.load("y.npz")["output"], np.load("plain.npz")["output"], rtol=1e-6)
    assert call("run", "model.relay", "-i", "x.npz", "--generators", "onnxruntime", "--generators", "c").code == 0


def test_an_engine_is_to_blame(call: Any) -> None:
    given = ("-i", "x.npz", "--generators", "own.py")
    done = call("verify", "model.relay", *given, "--bisect", "-o", "small.relay")
    assert done.code == 1
    assert "to blame: the engine of generator 'wrong' for @wrong_main_1 computes something else" in done.out
    assert "@wrong_main_1" in Path("small.relay").read_text()
    assert call("verify", "small.relay", "-i", "small.npz", "--generators", "own.py").code == 1
    found = call("verify", "model.relay", *given, "--bisect", "--json").json["culprit"]
    assert (found["stage"], found["node"], found["what"]) == ("engine", "wrong_main_1", "wrong")
    assert call("verify", "model.relay", "-i", "x.npz", "--generators", "c").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "model.relay", "--generators", "d"), "no code generator 'd'\n  hint: c, onnxruntime, or FILE.py"),
        (("run", "model.relay", "--generators", "nix.py"), "nix.py: there is no such file"),
        (("run", "model.relay", "--generators", "empty.py"), "empty.py makes no code generator"),
        (("run", "model.relay", "--generators", "c", "--generators", "c"), "generators: two are called 'c'"),
        (("run", "model.relay", "--generators", "c", "--dump", "d"), "--generators would have no effect"),
        (("compile", "model.relay", "--emit", "ir", "--generators", "c"), "--generators would have no effect"),
        (("verify", "m.legato", "--generators", "c"), "--generators would have no effect"),
    ],
)  # fmt: skip
def test_what_cannot_be(arguments: tuple[str, ...], message: str, call: Any) -> None:
    Path("empty.py").write_text("import re\n")
    done = call(*arguments)
    assert done.code == 2
    assert message in done.err
