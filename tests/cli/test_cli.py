"""The command line: what each verb prints, its JSON, its exit code, and exact messages for bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import legato
from legato import cli
from legato.base.errors import InternalError, PlatformError
from legato.base.precision import Precision
from legato.cli._answer import Answer
from legato.compare import Culprit, OutputReport, Report
from legato.driver import load_model
from legato.ir.files import save_json_file
from legato.pipelines import DEFAULT
from tests.cli.conftest import MLP

SOURCE = Path(legato.__file__).parents[1]


def save_onnx(path: str = "model.onnx", operators: tuple[str, ...] = ("Relu",)) -> None:
    """x · w through elementwise operators, with a symbolic batch."""
    w = helper.make_tensor("w", TensorProto.FLOAT, (4, 3), np.linspace(-1, 1, 12, dtype=np.float32))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h0"], name="first")]
    names = [f"h{n}" for n in range(len(operators))] + ["y"]
    nodes += [helper.make_node(op, [names[n]], [names[n + 1]], name=f"node{n}") for n, op in enumerate(operators)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ("n", 4))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ("n", 3))
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], [w]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])  # fmt: skip
    onnx.save(model, path)


# ------------------------------------------------------------------ all verbs


def test_version(call: Any) -> None:
    assert call("--version").out == f"legato {legato.__version__}\n"


def test_without_arguments_it_says_what_there_is(call: Any) -> None:
    done = call()
    assert (done.code, done.out) == (2, "")
    for verb in cli.VERBS:
        assert re.search(rf"^    {verb.__name__.rpartition('.')[2]}\s", done.err, re.MULTILINE)


@pytest.mark.parametrize("verb", [v.__name__.rpartition(".")[2] for v in cli.VERBS])
def test_every_verb_has_help_and_json(verb: str, call: Any) -> None:
    done = call(verb, "--help")
    assert done.code == 0
    assert "--json" in done.out


@pytest.mark.parametrize("arguments", [(), ("frobnicate",), ("check",), ("run", "x.legato", "--fill", "sevens")])
def test_wrong_usage(arguments: tuple[str, ...], call: Any) -> None:
    done = call(*arguments)
    assert done.code == 2
    assert done.err.startswith("usage: legato")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "none.onnx"), "import error: none.onnx: No such file or directory"),
        (("check", "none.relay"), "import error: none.relay: No such file or directory"),
        (("check", "def @main() { 1 }"), "got the text of a program, wanted the path of a file\n"
            "  hint: legato.parse(text) makes a module of it; or write it to a .relay file"),
        (("compile", "none.onnx", "-o", "a.legato"), "import error: none.onnx: No such file or directory"),
        (
            ("compile", "mlp.relay", "-o", "a.legato", "--target", "z80"),
            "unknown target 'z80'\n  hint: one of host, x86-64-v2, x86-64-v3, x86-64-v4; "
            "x86-64-v4 may be followed by +avx512vnni, +avx512bf16",
        ),
        (
            ("compile", "mlp.relay", "-o", "a.legato", "--shape", "x=1,4"),
            "shapes are given for ONNX models; a program in Relay has its own\n  hint: its dims: n",
        ),
        (("run", "none.legato", "--fill", "ones"), "cannot read none.legato: No such file or directory"),
        (("run", "mlp.relay"),
            "no inputs; wanted x: float32[n, 4], w: float32[3, 4]\n  hint: -i FILE.npz, or --fill random"),
        (("run", "mlp.relay", "-i", "none.npz"), "none.npz: No such file or directory"),
        (("run", "mlp.relay", "-i", "mlp.relay"), "mlp.relay holds no arrays: wanted a .npz or .npy file"),
        (("run", "mlp.relay", "--fill", "ones", "--dim", "m=2"),
         "'m' is not a dim of an input\n  hint: the inputs' dims are n"),
        (("show", "mlp.relay", "--after", "lunch"), f"there is no stage 'lunch'\n  hint: one of "
            f"{', '.join(dict.fromkeys(p.name for p in DEFAULT))}, lower, tir"),
        (("verify", "mlp.relay", "--bisect", "-o", "a.txt"), "the reproducer is a .relay file; -o names a.txt"),
        (("verify", "mlp.relay", "--against", "onnxruntime"), "ONNX Runtime reads ONNX models only, not mlp.relay"),
        (("bench", "mlp.relay", "--vs", "onnxruntime"),
            "onnxruntime reads ONNX models only, not mlp.relay\n  hint: give the .onnx file"),
        (("bench", "model.onnx", "--vs", "tvm"),
            "unknown engine 'tvm'\n"
            "  hint: one of onnxruntime, openvino, openvino-bf16, torch, legato-exact, legato-fast, legato-bfloat16"),
    ],
)  # fmt: skip
def test_bad_input(arguments: tuple[str, ...], message: str, call: Any, here: Path) -> None:
    before = sorted(here.iterdir())
    done = call(*arguments)
    assert (done.code, done.out, done.err) == (2, "", f"legato: {message}\n")
    assert sorted(here.iterdir()) == before
    again = call(*arguments, "--json")
    assert again.json["exit"] == 2
    assert again.json["error"]["message"] == message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--shape", "1,2"), "argument --shape: got '1,2', wanted NAME=DIMS such as x=1,3,h,w"),
        (("--threads", "0"), "argument --threads: got '0', wanted a positive number"),
        (("--dim", "n"), "argument --dim: got 'n', wanted NAME=N such as n=8"),
    ],
)
def test_bad_values(arguments: tuple[str, ...], message: str, call: Any) -> None:
    done = call("run", "mlp.relay", *arguments)
    assert (done.code, done.err.splitlines()[-1]) == (2, f"legato run: error: {message}")


def test_bugs_have_their_own_exit_code(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Answer:
        raise InternalError("no kernel stores x")

    monkeypatch.setattr(cli.doctor, "run", broken)
    done = call("doctor")
    assert done.code == 3
    assert done.err == "legato: no kernel stores x\n  this is a bug in Legato; please report it\n"

    def worse(*_: object) -> Answer:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(cli.doctor, "run", worse)
    done = call("doctor", "--json")
    assert done.code == 3
    assert done.json["error"]["message"] == (
        "ZeroDivisionError: division by zero\n  this is a bug in Legato; please report it"
    )
    assert "Traceback" in done.err


def test_ctrl_c(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Answer:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.doctor, "run", interrupted)
    done = call("doctor")
    assert (done.code, done.err) == (130, "legato: interrupted by Ctrl-C\n")


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own."""
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from legato.cli import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, **options)


def test_module_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "legato", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=SOURCE)
    assert (done.returncode, done.stdout) == (0, f"legato {legato.__version__}\n")


def test_a_reader_that_has_seen_enough() -> None:
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); from legato.cli import main; sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", code, "show", "mlp.relay"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as show:
        assert show.stdout is not None
        assert show.stderr is not None
        show.stdout.close()
        assert show.stderr.read() == b""


def test_the_reference_knows_every_verb_and_only_real_flags(call: Any) -> None:
    page = "".join(page.read_text() for page in (SOURCE.parent / "docs").glob("cli*.md"))
    helps = {}
    for verb in cli.VERBS:
        name = verb.__name__.rpartition(".")[2]
        assert f"**`legato {name} " in page or f"**`legato {name}`" in page
        helps[name] = call(name, "--help").out
    known = set(re.findall(r"--[a-z]+", " ".join(helps.values())))
    assert set(re.findall(r"(?<![-\w])--[a-z]+", page)) <= known


# ------------------------------------------------------------------ check


def test_check_says_what_a_model_is(call: Any) -> None:
    save_onnx()
    done = call("check", "model.onnx")
    assert done.code == 0
    assert done.out == (
        "model      model.onnx\n"
        "operators  2 nodes of ai.onnx 17\n"
        "inputs     x: Tensor[(n, 4), float32]\n"
        "outputs    y: Tensor[(n, 3), float32]\n"
        "weights    12 parameters, 48 B\n"
        "accesses   6 proven, 0 checked, 0 clamped\n"
        "\ndomain   operator  opset  nodes  supported\n"
        "ai.onnx  MatMul       17      1  yes\n"
        "ai.onnx  Relu         17      1  yes\n"
        "\n"
        "It can be compiled, to 1 kernel; 0 operators run by their reference.\n"
    )
    data = call("check", "model.onnx", "--json").json
    assert (data["verb"], data["exit"], data["unsupported"], data["parameters"]) == ("check", 0, [], 12)
    assert data["inputs"] == {"x": "Tensor[(n, 4), float32]"}
    assert len(data["sha256"]) == 64


def test_check_lists_everything_unsupported(call: Any) -> None:
    save_onnx(operators=("Frob", "Relu", "Nicate"))
    done = call("check", "model.onnx")
    assert done.code == 1
    assert "It cannot be compiled: 2 reasons\n" in done.out
    assert "ai.onnx  Frob         17      1  no: no such operator in Legato\n" in done.out
    assert '--ops FILE.py that has custom = {"Frob": function, "Nicate": function}' in done.out
    data = call("check", "model.onnx", "--json").json
    assert [(u["node"], u["operator"]) for u in data["unsupported"]] == [("node0", "Frob"), ("node2", "Nicate")]
    table = {u["operator"]: (u["count"], u["refused"], u["supported"]) for u in data["table"]}
    assert table == {"Frob": (1, 1, False), "Nicate": (1, 1, False), "MatMul": (1, 0, True), "Relu": (1, 0, True)}
    refused = call("compile", "model.onnx", "-o", "model.legato")
    assert refused.code == 1
    assert refused.err.startswith("legato: unsupported: model.onnx: 2 nodes cannot be compiled (Frob, Nicate)\n")
    assert not Path("model.legato").exists()


def test_check_of_relay(call: Any) -> None:
    data = call("check", "mlp.relay", "--json").json
    assert data["inputs"] == {"x": "Tensor[(n, 4), float32]", "w": "Tensor[(3, 4), float32]"}
    assert data["by_reference"] == []


# ------------------------------------------------------------------ compile, run


def test_compile_and_run(call: Any) -> None:
    save_onnx()
    done = call("compile", "model.onnx", "-o", "model.legato", "--threads", "1")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == [
        "written", "inputs", "outputs", "memory", "kernels", "time"
    ]  # fmt: skip
    x = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    np.savez("in.npz", x=x)
    done = call("run", "model.legato", "-i", "in.npz", "-o", "out.npz")
    assert done.code == 0
    with np.load("out.npz") as found:
        (y,) = (found[name] for name in found.files)
    w = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(y, np.maximum(x @ w, 0), rtol=1e-6)
    np.save("in.npy", x)  # the one input needs no name
    described = call("run", "model.legato", "-i", "in.npy", "--json").json
    facts = {"min": float(y.min()), "max": float(y.max()), "mean": pytest.approx(y.mean())}
    assert described["outputs"] == [{"name": "y", "type": "float32[2, 3]", **facts}]


def test_compile_says_what_it_cost(call: Any) -> None:
    save_onnx()
    data = call("compile", "model.onnx", "-o", "model.legato", "--shape", "x=8,?", "--json").json
    assert data["inputs"] == ["x: float32[8, 4]"]
    assert data["bytes"] == Path("model.legato").stat().st_size
    assert data["peak_memory"].isdigit()
    assert data["by_reference"] == []
    assert set(data["stages"]) == {"read", "passes", "lower", "codegen", "link"}


def test_sizes_of_a_dim(call: Any) -> None:
    """The dim of an ONNX input, named by the file, and one that --shape names."""
    save_onnx()
    for name, shape in (("n", ()), ("rows", ("--shape", "x=rows,4"))):
        sizes = (*shape, "--shape", f"{name}=1,8,2..64")
        data = call("compile", "model.onnx", "-o", "model.legato", *sizes, "--json").json
        assert data["inputs"] == [f"x: float32[{name}, 4] where {name} = 1 or {name} = 8 or 2 <= {name} <= 64"]
    assert call("run", "model.legato", "--fill", "ones", "--dim", "rows=8").code == 0
    assert call("run", "model.legato", "--fill", "ones", "--dim", "rows=65").code == 2
    assert call("verify", "model.onnx", "--shape", "n=3").code == 0


def test_run_compiles_models(call: Any) -> None:
    a = call("run", "mlp.relay", "--fill", "random", "--dim", "n=5", "--seed", "3", "--json").json
    b = call("run", "mlp.relay", "--fill", "random", "--dim", "n=5", "--seed", "3", "--json", "--threads", "1").json
    assert a["outputs"] == b["outputs"]
    assert a["outputs"][0]["type"] == "float32[5, 3]"


def test_compiled_programs_are_not_compiled_again(call: Any) -> None:
    call("compile", "mlp.relay", "-o", "mlp.legato")
    done = call("run", "mlp.legato", "--fill", "ones", "--target", "x86-64-v2")
    assert done.err == "legato: mlp.legato is compiled already: --target would have no effect\n"


def test_a_damaged_artifact(call: Any) -> None:
    call("compile", "mlp.relay", "-o", "mlp.legato")
    content = bytearray(Path("mlp.legato").read_bytes())
    content[len(content) // 2] ^= 1
    Path("mlp.legato").write_bytes(content)
    for verb in (("run", "mlp.legato", "--fill", "ones"), ("verify", "mlp.legato")):
        done = call(*verb)
        assert done.code == 2
        assert done.err.startswith("legato: mlp.legato")
        assert "Traceback" not in done.err


@pytest.mark.parametrize(("emit", "needle"), [("ir", "host @main("), ("llvm", "define hidden i32"), ("asm", "retq")])
def test_emit(emit: str, needle: str, call: Any) -> None:
    done = call("compile", "mlp.relay", "--emit", emit)
    assert done.code == 0
    assert needle in done.out
    written = call("compile", "mlp.relay", "--emit", emit, "-o", "out.txt")
    assert written.out.startswith("written  out.txt: ")
    assert needle in Path("out.txt").read_text()


# ------------------------------------------------------------------ verify, show, bench


def test_verify_holds(call: Any) -> None:
    save_onnx()
    done = call("verify", "model.onnx", "--dim", "n=3")
    assert done.code == 0
    head, line = done.out.splitlines()
    assert head.split() == ["output", "error", "ONNX", "Runtime's", "allowed", "range"]
    assert line.startswith("holds  y: float32[3, 3]  ")
    data = call("verify", "mlp.relay", "--json").json
    assert (data["holds"], data["peer"], data["host_operators"]) == (True, "interpreter", 0)
    assert data["outputs"][0]["holds"] is True


def test_verify_with_inputs_from_a_file(call: Any) -> None:
    np.savez("in.npz", x=np.ones((6, 4), np.float32), w=np.ones((3, 4), np.float32))
    data = call("verify", "mlp.relay", "-i", "in.npz", "--json").json
    assert data["outputs"][0]["type"] == "float32[6, 3]"
    np.savez("in.npz", y=np.ones(3))
    done = call("verify", "mlp.relay", "-i", "in.npz")
    assert (done.code, done.err) == (2, "legato: inputs: got y, wanted x: float32[n, 4], w: float32[3, 4]\n")


def test_verify_of_an_artifact_checks_its_bytes(call: Any) -> None:
    call("compile", "mlp.relay", "-o", "mlp.legato")
    done = call("verify", "mlp.legato")
    assert done.code == 0
    assert done.out.endswith("Every byte is as it was written.\n")


def test_verify_names_the_culprit(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = legato.parse(MLP)
    inputs = {"x": np.ones((2, 4), np.float32), "w": np.ones((3, 4), np.float32)}
    wrong = OutputReport("y", "float32[2, 3]", 0.5, 4.0, 1e-7, 0.5, 4e-5, False)
    report = Report((wrong,), "onnxruntime", 0, culprit=Culprit("code", "x3", "text", program, inputs))
    monkeypatch.setattr(legato, "verify", lambda *_, **__: report)
    done = call("verify", "mlp.relay", "--bisect", "-o", "small.relay")
    assert done.code == 1
    assert done.out == (
        "       output               error  ONNX Runtime's   allowed     range\n"
        "WRONG  y: float32[2, 3]  5.00e-01        1.00e-07  4.00e-05  4.00e+00\n"
        "\n"
        "to blame: the code for %x3 computes something else than its operators\n"
        "to see it again: legato verify small.relay -i small.npz\n"
    )
    np.testing.assert_array_equal(np.load("small.npz")["x"], inputs["x"])
    assert "nn.dense" in call("show", "small.relay").out


def test_show(call: Any) -> None:
    assert "nn.dense" in call("show", "mlp.relay").out
    assert "/* ty=Tensor[" in call("show", "mlp.relay", "--types").out
    save_json_file(load_model("mlp.relay"), "mlp.json")
    assert call("show", "mlp.json", "--types").out == call("show", "mlp.relay", "--types").out
    assert "span=mlp.relay:" in call("show", "mlp.relay", "--spans").out
    assert "Primitive=1" in call("show", "mlp.relay", "--after", "fuse").out
    assert "call_tir" in call("show", "mlp.relay", "--after", "lower").out
    assert "kernel @" in call("show", "mlp.relay", "--after", "tir").out
    assert legato.parse(call("show", "mlp.relay", "--after", "to-a-normal", "--json").json["text"])
    assert "bfloat16" not in call("show", "mlp.relay", "--after", "lower").out
    for stage in ("low-precision", "lower"):
        assert "bfloat16" in call("show", "mlp.relay", "--after", stage, "--precision", "bfloat16").out
    assert call("show", "mlp.relay", "--after", "low-precision").code == 2
    call("compile", "mlp.relay", "-o", "mlp.legato")
    assert "nn.dense" in call("show", "mlp.legato", "--text").out
    assert "text as it is: --types would have no effect" in call("show", "mlp.legato", "--types").err
    done = call("show", "mlp.legato", "--after", "fuse")
    assert done.err == "legato: the program after 'fuse' was not kept; kept: none\n"


def test_bfloat16(call: Any) -> None:
    """Compiled, verified and measured with factors of 16 bits."""
    assert call("verify", "mlp.relay", "--precision", "bfloat16").code == 0
    assert call("check", "mlp.relay", "--precision", "bfloat16").code == 0
    done = call("compile", "mlp.relay", "-o", "narrow.legato", "--precision", "bfloat16", "--json")
    assert (done.code, done.json["precision"]) == (0, "bfloat16")
    assert legato.load("narrow.legato").precision is Precision.BFLOAT16
    assert call("run", "narrow.legato", "--fill", "random", "-o", "narrow.npz").code == 0
    assert call("run", "mlp.relay", "--fill", "random", "-o", "wide.npz").code == 0
    with np.load("narrow.npz") as narrow, np.load("wide.npz") as wide:
        for name in wide.files:
            assert 0 < np.abs(narrow[name] - wide[name]).max() < 0.05
    done = call("bench", "mlp.relay", "--precision", "bfloat16", "--vs", "legato-bfloat16,legato-exact",
                "--rounds", "1", "--block", "0.01", "--threads", "1", "--json")  # fmt: skip
    assert done.code == 0
    assert set(done.json["engines"]) == {"legato", "legato-bfloat16", "legato-exact"}


def test_bench_against_onnxruntime(call: Any) -> None:
    save_onnx()
    done = call(
        "bench",
        "model.onnx",
        "--vs",
        "onnxruntime",
        "--rounds",
        "2",
        "--max-rounds",
        "2",
        "--block",
        "0.01",
        "--threads",
        "2",
        "-o",
        "b.json",
    )
    assert done.code == 0
    assert "outputs agree" in done.out
    data = json.loads(Path("b.json").read_text())
    assert set(data["engines"]) == {"legato", "onnxruntime"}
    assert data["threads"] == 2


# ------------------------------------------------------------------ doctor, cache


def test_doctor(call: Any) -> None:
    done = call("doctor")
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()][:7] == [
        "legato", "system", "cpu", "target", "threads", "packages", "cache"
    ]  # fmt: skip
    data = call("doctor", "--json").json
    assert data["problem"] is None
    assert data["packages"]["numpy"] == np.__version__


def test_doctor_where_nothing_runs(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> None:
        raise PlatformError("Legato runs on Linux on x86-64 only so far; this is Plan 9 on MIPS")

    monkeypatch.setattr("legato.runtime.binding.library", nowhere)
    done = call("doctor")
    assert done.code == 1
    assert "problem   Legato runs on Linux on x86-64 only so far; this is Plan 9 on MIPS\n" in done.out


def test_threads_that_the_environment_names(here: Path) -> None:
    import os

    done = process("doctor", env={**os.environ, "LEGATO_THREADS": "3"})
    assert "threads   3, because of LEGATO_THREADS (" in done.stdout
    assert "setting   LEGATO_THREADS=3\n" in done.stdout


def test_an_entry_of_the_cache_that_another_process_removed(here: Path) -> None:
    """Between listing and looking, as a link to nothing is."""
    (here / "kernels").mkdir(mode=0o700)
    (here / "kernels" / "gone.bin").symlink_to(here / "nothing")
    environment = {**os.environ, "LEGATO_CACHE_DIR": str(here / "kernels")}
    for arguments in (["cache", "ls"], ["doctor"], ["cache", "clear"]):
        done = process(*arguments, env=environment)
        assert (done.returncode, done.stderr) == (0, ""), arguments


def test_cache_is_listed_and_cleared(here: Path) -> None:
    import os

    environment = {**os.environ, "LEGATO_CACHE_DIR": str(here / "kernels")}
    assert process("cache", "ls", env=environment).stdout == f"{here}/kernels: holds 0 kernels, 0 B\n"
    process("compile", "mlp.relay", "-o", "a.legato", env=environment)
    listed = json.loads(process("cache", "ls", "--json", env=environment).stdout)
    assert listed["kernels"] >= 2
    assert process("cache", "clear", env=environment).stdout.startswith(f"{here}/kernels: removed {listed['kernels']} ")
    assert not list((here / "kernels").glob("*.bin"))


def test_a_file_that_cannot_be_written(call: Any, here: Path) -> None:
    for arguments in (("--emit", "ir", "-o", "none/a.txt"), ("-o", "none/a.legato")):
        done = call("compile", "mlp.relay", *arguments)
        assert done.code == 2
        assert "No such file or directory" in done.err
    done = call("run", "mlp.relay", "--fill", "ones", "-o", "none/out.npz")
    assert done.code == 2
    assert sorted(path.name for path in here.iterdir()) == ["mlp.relay"]
