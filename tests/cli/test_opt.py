"""`legato opt`: passes over a file, by name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

import legato
from legato.base.errors import TypeCheckError
from legato.base.precision import Precision, precision
from legato.base.target import target
from legato.cli import opt
from legato.driver import CompileOptions, compile_module, load_model
from legato.infer.infer import infer
from legato.ir.equal import alpha_equal
from legato.ir.expr import Var
from legato.ir.module import Module
from legato.pipelines import BY_PRECISION
from legato.transform import table
from legato.transform.fold_scale import FoldScale
from legato.transform.infer_types import InferTypes
from legato.transform.pass_ import run
from legato.transform.simplify import Simplify

MIXED = """
#[version = "0.0.5"]
def @loop(%n: int32, %x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {
  if (%n < 1) { %x } else { @loop(%n - 1, exp(%x)) }
}
def @main(%n: int32, %x: Tensor[(2, 3), float32], %l: List[Tensor[(2, 3), float32]]) {
  let %f = fn (%y: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] { %y + %x * 2f };
  let %z = if (%n < 3) { @loop(%n, %f(%x)) } else { %f(%x) };
  (@map(%f, %l), nn.dense(%z, %x))
}
"""


@pytest.fixture(autouse=True)
def mixed(here: Path) -> None:
    """A program with control flow, closures and a data type beside the usual one."""
    (here / "mixed.relay").write_text(MIXED)


@pytest.mark.parametrize("name", table())
def test_every_pass_runs(name: str, call: Any) -> None:
    model = "mixed.relay" if table()[name].keeps_meaning else "mlp.relay"  # what is differentiated has to give floats
    done = call("opt", "-p", name, model, "--json").json
    assert (done["exit"], done["passes"], list(done["seconds"])) == (0, [name], [name])
    expected = infer(run(InferTypes()(load_model(model)), [table()[name]()]))
    assert alpha_equal(legato.parse(done["text"]), expected)


@pytest.mark.parametrize("name", BY_PRECISION)
@pytest.mark.parametrize("model", ["mlp.relay", "mixed.relay"])
def test_lists_of_passes_give_what_the_driver_has(name: str, model: str, call: Any) -> None:
    options = CompileOptions(target("host"), keep=frozenset({"fuse"}), precision=precision(name))
    driver = compile_module(load_model(model), options).modules["fuse"]
    assert alpha_equal(legato.parse(call("opt", model, "-p", name).out), infer(driver))


def test_passes_run_in_their_order(call: Any) -> None:
    done = call("opt", "mlp.relay", "-p", "to-a-normal", "-p", "fuse{max-ops=1}, simplify", "--json").json
    assert done["passes"] == ["to-a-normal", "fuse{max-ops=1}", "simplify"]
    assert done["text"].count("Primitive=1") == 2
    assert call("opt", "mlp.relay", "-p", "to-a-normal,fuse").out.count("Primitive=1") == 1


def test_the_program_is_written(call: Any) -> None:
    expected = load_model("mlp.relay")
    for file in ("out.relay", "out.relax", "out.json"):
        done = call("opt", "mlp.relay", "-p", "to-a-normal,to-graph", "-o", file)
        assert done.out == f"written  {file}: {Path(file).stat().st_size} B\n"
        assert alpha_equal(infer(load_model(file)), expected)
    assert "R.nn.relu" in call("opt", "out.json", "-p", "simplify", "--script").out
    assert "/* ty=" in call("opt", "mlp.relay", "-p", "simplify", "--types").out


def test_passes_are_watched(call: Any) -> None:
    passes = ("-p", "simplify,to-a-normal,fuse")
    done = call("opt", "mlp.relay", *passes, "--print-after", "fuse", "--print-after", "simplify", "--time")
    marks = [line.split()[0] for line in done.err.splitlines() if " ms" in line]
    assert marks == ["simplify", "to-a-normal", "fuse"]
    assert "// after simplify (unchanged)\n" in done.err
    assert done.err.endswith(f"// after fuse\n{done.out}\n")
    assert call("opt", "mlp.relay", *passes, "--print-after", "all").err.count("// after ") == 3
    assert call("opt", "mlp.relay", *passes).err == ""


def test_a_failure_names_its_pass(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: Simplify, mod: Module) -> Module:
        gv, main = mod.var("main"), mod["main"]
        return mod.with_function(gv, type(main)(main.params, Var("gone", ty=main.body.ty)))

    def complain(self: FoldScale, mod: Module) -> Module:
        raise TypeCheckError("no such scale")

    monkeypatch.setattr(Simplify, "__call__", forget)
    monkeypatch.setattr(FoldScale, "__call__", complain)
    done = call("opt", "mlp.relay", "-p", "to-graph,simplify")
    assert done.code == 3
    assert "pass simplify made a malformed program" in done.err
    done = call("opt", "mlp.relay", "-p", "to-graph,fold-scale,simplify")
    assert (done.code, done.err) == (2, "legato: type error: no such scale\n  in pass fold-scale\n")


def test_passes_are_listed(call: Any) -> None:
    lines = call("opt", "--list").out.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("fuse "))
    assert lines[at].endswith("  Operator fusion: groups of operators that become one kernel each.")
    assert lines[at + 1].strip() == "{max-ops=128, max-mixed=48, max-row=4096, max-reads=144}"
    data = call("opt", "--list", "--json").json
    assert [p["name"] for p in data["passes"]] == list(table())
    assert next(p for p in data["passes"] if p["name"] == "legalize")["options"] == {"skip": "[]", "groups": "false"}
    assert list(data["lists"]) == [p.value for p in Precision]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mlp.relay", "-p", "fusion"), "parse error: there is no pass fusion\n  at <passes>:1:1\n"),
        (("mlp.relay", "-p", "fuse", "-o", "out.txt"),
         "a program is written into a .relay, .relax or .json file, not out.txt"),
        (("mlp.relay", "-p", "fuse", "-o", "mlp.relay"), "mlp.relay is read: it would be replaced"),
        (("mlp.relay", "-p", "fuse", "-o", "out.relay", "--types"),
         "the name of the file says what is written: --types would have no effect"),
        (("mlp.relay", "-p", "fuse,fuse", "--print-after", "inline"),
         "--print-after: no pass inline is run\n  hint: one of fuse, all"),
        (("mlp.legato", "-p", "fuse"), "mlp.legato is compiled already"),
        (("mlp.relay", "-p", "fuse", "--list", "--time"),
         "--list runs nothing: MODEL, -p, --time would have no effect"),
        (("none.onnx", "-p", "fuse"), "import error: none.onnx: No such file or directory"),
    ],
)  # fmt: skip
def test_wrong_arguments(arguments: tuple[str, ...], message: str, call: Any) -> None:
    done = call("opt", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"legato: {message}")


def test_a_list_refuses_every_other_argument() -> None:
    parser = argparse.ArgumentParser()
    opt.add_arguments(parser)
    assert {a.dest for a in parser._actions} - {"help", "list", "use"} == set(opt._OF_RUNS)


@pytest.mark.parametrize("arguments", [(), ("mlp.relay",), ("-p", "fuse")])
def test_missing_arguments(arguments: tuple[str, ...], call: Any) -> None:
    done = call("opt", *arguments, "--json")
    assert (done.code, done.json["error"]["message"]) == (2, "MODEL and -p are required, or --list")


OWN = """
from legato.patterns import rewrite, rule
from legato.transform import function_pass

TWICE = rule("multiply(%x, 2f) => add(%x, %x)")


@function_pass
def twice_is_sum(func, mod, *, on: bool = True):
    \"\"\"A product with 2 is a sum.\"\"\"
    return rewrite(TWICE, func, mod) if on else func
"""


def test_passes_of_ones_own(call: Any) -> None:
    Path("own.py").write_text(OWN)
    done = call("opt", "mixed.relay", "--use", "own.py", "-p", "simplify, twice-is-sum", "--rules", "--json")
    assert "add(%x, %x)" in done.json["text"] or "add(%y, %y)" in done.json["text"]
    (row,) = done.json["rules"]
    assert (row["pass"], row["rule"], row["times"]) == ("twice-is-sum", "multiply(%x, 2f) => add(%x, %x)", 1)
    assert row["at"] == f"{Path('own.py').resolve()}:5"
    assert "1×  twice-is-sum  multiply(%x, 2f) => add(%x, %x)" in done.err
    done = call("opt", "mixed.relay", "--use", "own.py", "-p", "twice-is-sum{on=false}", "--rules", "--json")
    assert done.json["rules"] == []
    assert "twice-is-sum" in call("opt", "--list", "--use", "own.py").out


def test_code_that_makes_no_passes(call: Any) -> None:
    Path("own.py").write_text("x = 1\n")
    assert "own.py makes no pass" in call("opt", "mixed.relay", "--use", "own.py", "-p", "simplify").err
    Path("own.py").write_text(OWN.replace("twice_is_sum", "fuse"))
    assert "another pass is called fuse" in call("opt", "mixed.relay", "--use", "own.py", "-p", "simplify").err
    assert "there is no such file" in call("opt", "mixed.relay", "--use", "none.py", "-p", "simplify").err


def test_programs_before_and_after_and_in_a_folder(call: Any) -> None:
    done = call("opt", "mlp.relay", "-p", "fold-constant, simplify", "--print-before", "simplify", "--dump", "stages")
    assert done.err.startswith("// before simplify\n")
    assert sorted(path.name for path in Path("stages").iterdir()) == ["01_fold-constant.txt", "02_simplify.txt"]
    done = call("opt", "mlp.relay", "-p", "simplify", "--print-before", "fuse")
    assert "--print-before: no pass fuse is run" in done.err
