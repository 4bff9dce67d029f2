"""The public functions, as a user meets them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import legato
from legato.base.errors import ArtifactError, CompileError, RunError
from legato.ops import table

MLP = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) -> Tensor[(n, 3), float32] {
  nn.relu(nn.dense(%x, %w))
}
"""
X, W = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), np.ones((3, 4), np.float32)
Y = np.maximum(X @ W.T, 0)


def test_everything_listed_is_there() -> None:
    assert sorted(legato.__all__) == legato.__all__
    assert all(getattr(legato, name) for name in legato.__all__)
    assert legato.__version__ == "0.1.0"


def test_compile_call_save_load(tmp_path: Path) -> None:
    exe = legato.compile(legato.parse(MLP), threads=1)
    np.testing.assert_allclose(exe(X, W), Y, rtol=1e-6)
    (out,) = exe.run({"w": W, "x": X}).values()
    np.testing.assert_allclose(out, Y, rtol=1e-6)
    exe.save(tmp_path / "mlp.legato")
    loaded = legato.load(tmp_path / "mlp.legato", threads=2)
    np.testing.assert_array_equal(loaded(X, W), exe(X, W))
    assert [str(t) for t in loaded.inputs] == ["x: float32[n, 4]", "w: float32[3, 4]"]
    assert "nn.dense" in loaded.program.source


def test_paths_of_programs_in_relay(tmp_path: Path) -> None:
    (tmp_path / "mlp.relay").write_text(MLP)
    np.testing.assert_allclose(legato.compile(tmp_path / "mlp.relay")(X, W), Y, rtol=1e-6)
    np.testing.assert_allclose(legato.compile(str(tmp_path / "mlp.relay"))(X, W), Y, rtol=1e-6)


def test_stages_are_kept_on_demand() -> None:
    exe = legato.compile(legato.parse(MLP), keep=["fuse", "lower", "tir"])
    assert "Primitive=1" in exe.module_after("fuse")
    assert "call_tir" in exe.module_after("lower")
    assert "host @main(" in exe.module_after("tir")
    with pytest.raises(RunError) as error:
        exe.module_after("simplify")
    assert str(error.value) == "the program after 'simplify' was not kept; kept: fuse, lower, tir"


def test_progress_names_stages() -> None:
    said: list[str] = []
    legato.compile(legato.parse(MLP), progress=said.append)
    assert [s for s in said if s in ("passes", "passes: fuse", "lower", "codegen", "link")] == [
        "passes", "passes: fuse", "lower", "codegen", "link"
    ]  # fmt: skip


def test_what_cannot_be_compiled() -> None:
    with pytest.raises(CompileError) as error:
        legato.compile(3.5)
    assert str(error.value) == (
        "error: cannot compile a float\n"
        "  hint: give a path to a .onnx, .relay or .relax file, an onnx.ModelProto, or a legato Module"
    )


@pytest.mark.parametrize("text", [MLP, MLP * 100, "fn (%x: int32) { %x }", "def @main() { 1 } // a.relay"])
def test_a_text_in_place_of_a_path(text: str) -> None:
    for shapes in (None, {"n": [1, 2]}):
        with pytest.raises(CompileError) as error:
            legato.compile(text, shapes=shapes)
        assert str(error.value) == (
            "error: got the text of a program, wanted the path of a file\n"
            "  hint: legato.parse(text) makes a module of it; or write it to a .relay file"
        )


def test_paths_that_look_like_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a\nb.relay", "fn (x).relay"):
        Path(name).write_text(MLP)
        assert legato.compile(name).inputs == legato.compile(legato.parse(MLP)).inputs


def test_not_an_artifact(tmp_path: Path) -> None:
    (tmp_path / "a.legato").write_text("nothing of the kind, but long enough to hold the prefix of a file")
    with pytest.raises(ArtifactError) as error:
        legato.load(tmp_path / "a.legato")
    assert str(error.value) == f"{tmp_path}/a.legato is not a Legato artifact"


# An operator that has a meaning, but no loops: run by its reference.
median = replace(
    table()["tanh"],
    name="test.median3",
    compute=None,
    reference=lambda x: np.asarray(np.sort(x)[1:2].repeat(3), x.dtype),
)
MEDIAN = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(3,), float32]) { add(test.median3(%x), %x) }\n'


def test_operators_without_loops_run_by_their_reference(tmp_path: Path) -> None:
    exe = legato.compile(legato.parse(MEDIAN, ops=[median]), ops=[median])
    assert exe.stats["host_operators"] == 1
    x = np.array([3, 1, 2], np.float32)
    assert np.asarray(exe(x)).tolist() == [5, 3, 4]
    exe.save(tmp_path / "median.legato")
    assert np.asarray(legato.load(tmp_path / "median.legato", ops=[median])(x)).tolist() == [5, 3, 4]
    with pytest.raises(RunError) as error:
        legato.load(tmp_path / "median.legato")(x)
    assert str(error.value) == (
        "operator test.median3 failed: unsupported: the program needs operator 'test.median3'\n"
        "  hint: load it with ops=[…]"
    )


WITHOUT_THE_COMPILER = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("llvmlite", "onnx", "torch", "safetensors"):
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
sys.path.insert(0, sys.argv[1])
import numpy as np
import legato
exe = legato.load(sys.argv[2])
print(exe(np.ones((2, 4), np.float32), np.ones((3, 4), np.float32)).tolist())
print(*(name for name in ("legato.driver", "legato.ir", "legato.codegen") if name in sys.modules))
"""


def test_artifacts_run_without_the_compiler(tmp_path: Path) -> None:
    legato.compile(legato.parse(MLP)).save(tmp_path / "mlp.legato")
    source = str(Path(legato.__file__).parents[1])
    command = [sys.executable, "-c", WITHOUT_THE_COMPILER, source, str(tmp_path / "mlp.legato")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout == "[[4.0, 4.0, 4.0], [4.0, 4.0, 4.0]]\n\n"
