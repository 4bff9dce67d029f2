"""Scripts and code at the command line: a `.relax` file is read, a `.py` file is run where it is trusted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, RunError
from legato.driver import load_model
from legato.infer.infer import infer
from legato.ir.equal import alpha_equal
from legato.ir.expr import Call, Function, Var, constant
from legato.ir.module import Module
from legato.ir.types import tensor_type
from legato.ops import table
from legato.script import load, save

SCRIPT = """
@I.ir_module
class Module:
    @T.prim_func
    def double(x: T.Buffer(("n", 4), "float32"), y: T.Buffer(("n", 4), "float32")):
        for i, j in T.grid(n, 4):
            with T.sblock("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] * 2.0

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")):
        cls = Module
        n = T.int64()
        y = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((n, 4), "float32"))
        return R.exp(y)
"""
IMPORTS = "from legato.script import ir as I, relax as R, tir as T\n"
WRITES = "from pathlib import Path\nPath('was_run').touch()\n"
VERBS = ("check", "run", "verify", "show", "bench", "profile")


def test_a_script_is_a_model_that_is_only_read(call: Any) -> None:
    Path("m.relax").write_text(SCRIPT)
    assert call("check", "m.relax", "--json").json["kernels"] == 1
    found = call("run", "m.relax", "--fill", "ones", "--dim", "n=3", "-o", "out.npz", "--json").json
    assert found["outputs"][0]["type"] == "float32[3, 4]"
    np.testing.assert_allclose(np.load("out.npz")["output"], np.full((3, 4), np.exp(2), np.float32), rtol=1e-6)
    Path("bad.relax").write_text(SCRIPT.replace("R.exp(y)", "R.exp(z)"))
    error = call("run", "bad.relax", "--fill", "ones").err
    assert "nothing is called z here" in error
    assert "at bad.relax:16:22" in error
    Path("code.relax").write_text(WRITES)
    assert "a script is one class" in call("check", "code.relax").err
    assert not Path("was_run").exists()


def test_dims_that_a_shape_tells(call: Any) -> None:
    main = '@R.function\ndef main(x: R.Tensor(("k",), "float32"), s: R.Shape(("n", "m"))):\n'
    Path("m.relax").write_text(f"{main}    n, m = T.int64(), T.int64()\n    return R.reshape(x, (n, m))\n")
    assert call("verify", "m.relax", "--dim", "n=3", "--dim", "m=5", "--json").json["holds"]
    call("compile", "m.relax", "-o", "m.legato", "--shape", "n=1,2..4")
    np.savez("in.npz", **{"x": np.arange(6, dtype=np.float32), "s.0": 3, "s.1": 2})  # type: ignore[arg-type]
    call("run", "m.legato", "-i", "in.npz", "-o", "out.npz")
    np.testing.assert_array_equal(np.load("out.npz")["output"], np.arange(6).reshape(3, 2))


def test_code_is_refused_unless_it_is_trusted(call: Any) -> None:
    Path("m.py").write_text(IMPORTS + WRITES + SCRIPT)
    for verb in VERBS:
        done = call(verb, "m.py")
        assert done.code == 2
        assert "m.py is code: to have its model, it would be run" in done.err
        assert "--trust runs it; a script in a .relax file is only read" in done.err
    with pytest.raises(CompileError, match=r"m\.py is code"):
        legato.compile("m.py")
    assert not Path("was_run").exists()
    for model in ("m.py", "m.py:Module"):
        assert call("run", model, "--trust", "--fill", "ones", "--json").json["outputs"][0]["type"] == "float32[4, 4]"
    assert Path("was_run").exists()
    assert call("verify", "m.py", "--trust", "--json").json["holds"]
    assert call("check", "m.py", "--trust", "--json").json["kernels"] == 1
    assert call("compile", "m.py", "--trust", "-o", "m.legato").code == 0
    assert "def main" in call("show", "m.py", "--trust", "--script").out
    assert call("profile", "m.py", "--trust", "--fill", "ones", "--seconds", "0.01").code == 0
    assert "--trust would have no effect" in call("check", "mlp.relay", "--trust").err


def test_what_is_measured_is_in_a_file(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh processes read it: where code made the program, too."""

    def bench(model: Path, **_: Any) -> Any:
        raise RunError(f"{model.name} with {', '.join(gv.name for gv in load_model(model).functions)}")

    monkeypatch.setattr("legato.bench.bench", bench)
    Path("m.py").write_text(IMPORTS + SCRIPT)
    assert "m.json with double, main" in call("bench", "m.py", "--trust").err
    Path("m.relax").write_text(SCRIPT)
    assert "m.relax with double, main" in call("bench", "m.relax").err


@pytest.mark.parametrize(
    ("code", "model", "message"),
    [
        ("", "m.py", "m.py makes no program"),
        ("1 / 0", "m.py", "m.py raised ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "m.py", "m.py raised SystemExit: 3"),
        (f"{IMPORTS}{SCRIPT}Other = Module\n", "m.py:Other", ""),
        (f"{IMPORTS}{SCRIPT}Other = Module\n", "m.py", ""),
        (f"{IMPORTS}{SCRIPT}\n@R.function\ndef f(x: R.Prim('float32')):\n    return x\n", "m.py", "m.py makes several "
         "programs: Module, f\n  hint: m.py:Module"),
        (f"{IMPORTS}{SCRIPT}", "m.py:Modul", "m.py makes nothing called Modul"),
        (f"{IMPORTS}{SCRIPT}", "m.py:IMPORTS", "m.py makes nothing called IMPORTS"),
        ("x = 1", "m.py:x", "x of m.py is no program"),
        ("", "n.py", "n.py: there is no such file"),
        (f"{IMPORTS}{SCRIPT.replace('R.exp(y)', 'R.exp(z)')}", "m.py", "nothing is called z here"),
    ],
)  # fmt: skip
def test_what_code_makes(call: Any, code: str, model: str, message: str) -> None:
    Path("m.py").write_text(code)
    done = call("check", model, "--trust")
    assert message in done.err
    assert done.code == (2 if message else 0)


def test_a_model_is_shown_as_a_script_and_kept_in_a_file(call: Any) -> None:
    text = call("show", "mlp.relay", "--script").out
    assert "return R.nn.relu(R.op.nn.dense(x, w))" in text
    Path("again.relax").write_text(text)
    module = legato.parse(Path("mlp.relay").read_text())
    assert alpha_equal(load("again.relax"), module)
    assert "T.prim_func" in call("show", "mlp.relay", "--script", "--after", "lower").out
    assert "--types would have no effect" in call("show", "mlp.relay", "--script", "--types").err


def test_arrays_lie_beside_a_script() -> None:
    weights = np.arange(20, dtype=np.float32)
    x = Var("x", ty=tensor_type((20,)))
    for data, beside in ((weights, True), (weights[:4].repeat(5)[:1], False)):
        module = infer(Module.from_expr(Function((x,), Call(table()["add"], (x, constant(data))))))
        save(module, "m.relax")
        assert Path("m.relax.safetensors").exists() == beside
        assert alpha_equal(load("m.relax"), module)
        assert np.array_equal(legato.compile("m.relax")(weights), weights + data)
