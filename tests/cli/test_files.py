"""Files and streams of the command line: what is read is never replaced, what is no file is refused, and every answer
arrives or is missed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import legato
from legato.base import dtype as dt
from legato.base.errors import ImportModelError
from legato.infer.builder import Builder
from legato.ir.files import save_text
from legato.ir.module import Module
from legato.ir.types import tensor_type
from legato.ops import table

SOURCE = Path(legato.__file__).parents[1]
FEEDS = {"x": np.ones((2, 4), np.float32), "w": np.ones((3, 4), np.float32)}


# ------------------------------------------------------------------ outputs


@pytest.mark.parametrize("name", ["mlp.relay", "./mlp.relay", "link", "hard", "mlp.relay.safetensors"])
@pytest.mark.parametrize("verb", ["compile", "run", "bench", "profile"])
def test_a_model_is_never_replaced(verb: str, name: str, call: Any, here: Path) -> None:
    (here / "mlp.relay.safetensors").write_bytes(b"weights")
    (here / "link").symlink_to("mlp.relay")
    os.link(here / "mlp.relay", here / "hard")
    before = {path.name: path.read_bytes() for path in here.iterdir()}
    flag = "--trace" if verb == "profile" else "-o"
    done = call(verb, "mlp.relay", *(("--fill", "ones") if verb == "run" else ()), flag, name)
    assert done.code == 2
    assert done.err == f"legato: {Path(name)} is read: it would be replaced\n  hint: name another file\n"
    assert {path.name: path.read_bytes() for path in here.iterdir()} == before


def test_inputs_are_never_replaced(call: Any, here: Path) -> None:
    np.savez("in.npz", **FEEDS)  # type: ignore[arg-type]
    before = (here / "in.npz").read_bytes()
    for arguments in (
        ("run", "mlp.relay", "-i", "in.npz", "-o", "in.npz"),
        ("verify", "mlp.relay", "-i", "in.npz", "--bisect", "-o", "in.relay"),
    ):
        assert call(*arguments).err == "legato: in.npz is read: it would be replaced\n  hint: name another file\n"
    assert (here / "in.npz").read_bytes() == before


OPERATOR = """
from legato.ops._families import unary
from legato.te import math as te

twice = unary("my.twice", lambda x: x * 2, lambda x: x * te.literal(2, x), doc="Twice.")
"""
PASS = """
from legato.transform import function_pass

@function_pass
def same(func, mod):
    "Changes nothing."
    return func
"""
OTHERS = {  # the file that is read beside the model, what is in it, the arguments but for the output
    "ops": (OPERATOR, "run mlp.relay --fill ones --ops other.py"),
    "use": (PASS, "opt mlp.relay -p same --use other.py"),
    "generators": ("from legato.generators import CSource\nc = CSource()", "run mlp.relay --generators other.py"),
}


@pytest.mark.parametrize("flag", OTHERS)
def test_code_is_never_replaced(flag: str, call: Any, here: Path) -> None:
    """The output has a name that each verb takes, and is another link to what is read."""
    text, arguments = OTHERS[flag]
    (here / "other.py").write_text(text)
    os.link("other.py", "out.relay")
    assert call(*arguments.split(), "-o", "out.relay").err == (
        "legato: out.relay is read: it would be replaced\n  hint: name another file\n"
    )
    assert (here / "other.py").read_text() == (here / "out.relay").read_text() == text


def test_pictures_and_results_replace_no_code(call: Any, here: Path) -> None:
    (here / "own.py").write_text(OPERATOR)
    for arguments in ("bench mlp.relay --ops own.py -o own.py", "show mlp.relay --ops own.py --svg own.py"):
        done = call(*arguments.split())
        assert (done.code, done.err.splitlines()[0]) == (2, "legato: own.py is read: it would be replaced")
    assert (here / "own.py").read_text() == OPERATOR


def test_constants_are_never_replaced(call: Any, here: Path) -> None:
    np.save("w.npy", FEEDS["w"])
    before = (here / "w.npy").read_bytes()
    done = call("run", "mlp.relay", "--constant", "w=w.npy", "--fill", "ones", "-o", "w.npy")
    assert (done.code, done.err.splitlines()[0]) == (2, "legato: w.npy is read: it would be replaced")
    assert (here / "w.npy").read_bytes() == before


def external(name: str, file: str) -> onnx.TensorProto:
    """A tensor that lies in a file."""
    tensor = onnx.TensorProto(name=name, data_type=onnx.TensorProto.FLOAT, dims=[4, 4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=file)
    return tensor


@pytest.mark.parametrize("name", ["weights.npz", "parts/of_a_node.npz", "parts/of_a_branch.npz", "link.npz"])
def test_weights_of_a_model_are_never_replaced(name: str, call: Any, here: Path) -> None:
    """Files of external data: of initializers, of attributes, and of branches."""
    make = helper.make_node
    branch = helper.make_graph([make("Identity", ["b"], ["z"])], "g", [], [onnx.ValueInfoProto(name="z")])
    branch.initializer.append(external("b", "parts/of_a_branch.npz"))
    nodes = [
        make("Constant", [], ["c"], value=external("c", "parts/of_a_node.npz")),
        make("If", ["p"], ["y"], then_branch=branch, else_branch=branch), make("MatMul", ["y", "w"], ["v"]),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("p", 9, ())], [onnx.ValueInfoProto(name="v")])
    graph.initializer.append(external("w", "weights.npz"))
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), "m.onnx")
    (here / "parts").mkdir()
    files = [here / n for n in ("weights.npz", "parts/of_a_node.npz", "parts/of_a_branch.npz")]
    for file in files:
        file.write_bytes(np.eye(4, dtype=np.float32).tobytes())
    (here / "link.npz").symlink_to("weights.npz")
    assert call("run", "m.onnx", "--fill", "ones", "-o", "out.npz").code == 0
    assert call("run", "m.onnx", "--fill", "ones", "-o", "out.npz").code == 0
    before = [file.read_bytes() for file in files]
    done = call("run", "m.onnx", "--fill", "ones", "-o", name)
    assert (done.code, done.err) == (
        2, f"legato: {name} has weights of m.onnx: it would be replaced\n  hint: name another file\n",
    )  # fmt: skip
    assert [file.read_bytes() for file in files] == before


def test_compiling_replaces_artifacts_alone(call: Any, here: Path) -> None:
    (here / "weights.bin").write_bytes(b"of another model")
    done = call("compile", "mlp.relay", "-o", "weights.bin")
    assert (done.code, (here / "weights.bin").read_bytes()) == (2, b"of another model")
    assert done.err == (
        "legato: weights.bin is no compiled program: it would be replaced by one\n"
        "  hint: remove it, or name another file\n"
    )
    (here / "a.legato").touch()
    for _ in range(2):
        assert call("compile", "mlp.relay", "-o", "a.legato").code == 0


def test_outputs_that_are_no_files(call: Any, here: Path) -> None:
    (here / "null").symlink_to("/dev/null")
    (here / "full").symlink_to("/dev/full")
    assert call("compile", "mlp.relay", "-o", "null").code == 0
    assert (here / "null").is_char_device()
    done = call("compile", "mlp.relay", "-o", "full")
    assert (done.code, done.err) == (2, "legato: cannot write full: No space left on device\n")


# ------------------------------------------------------------------ inputs


@pytest.mark.parametrize("name", ["pipe", "zero"])
@pytest.mark.parametrize("kind", ["relay", "json", "onnx", "legato", "side", "input"])
def test_special_files_are_refused(kind: str, name: str, call: Any, here: Path) -> None:
    (here / "x.relay").write_bytes((here / "mlp.relay").read_bytes())
    target = here / {"side": "x.relay.safetensors", "input": "in.npz"}.get(kind, f"m.{kind}")
    if name == "pipe":
        os.mkfifo(target)
    else:
        target.symlink_to("/dev/zero")
    model = "x.relay" if kind in ("side", "input") else target.name
    verbs = {"legato": ("run",), "input": ("run", "verify")}.get(kind, ("check", "run", "compile"))
    for verb in verbs:
        given = ("-i", "in.npz") if kind == "input" else ("--fill", "ones") if verb == "run" else ()
        done = call(verb, model, *given, *(("-o", "a.legato") if verb == "compile" else ()))
        assert done.code == 2
        assert "not a regular file" in done.err


@pytest.mark.parametrize(
    "name", ["a\0b.relay", "a\0b.onnx", "a\0b.json", "none.relay", "none.json", "d.relay", "d.onnx"]
)
def test_models_that_cannot_be_opened(name: str, here: Path) -> None:
    for suffix in ("relay", "onnx"):
        (here / f"d.{suffix}").mkdir()
    with pytest.raises(ImportModelError):
        legato.compile(name)


def test_arrays_that_are_none(call: Any) -> None:
    np.savez("objects.npz", x=np.array([{}, 1], object), allow_pickle=True)
    np.save("object.npy", np.array([{}], object), allow_pickle=True)
    Path("zip.npz").write_bytes(Path("objects.npz").read_bytes()[:-9])
    for name in ("objects.npz", "object.npy", "zip.npz"):
        done = call("run", "mlp.relay", "-i", name)
        assert done.code == 2
        assert done.err.startswith(f"legato: {name} holds ")


# ------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "mlp.relay", "--seed", "-1"), "argument --seed: got '-1', wanted a number from 0 on"),
        (("run", "mlp.relay", "--threads", "²"), "argument --threads: got '²', wanted a positive number"),
        (("run", "mlp.relay", "--dim", "n=²"), "argument --dim: got 'n=²', wanted NAME=N such as n=8"),
        (("profile", "mlp.relay", "--seconds", "nan"), "argument --seconds: got 'nan', wanted seconds, up to 3600"),
        (("bench", "mlp.relay", "--block", "-1"), "argument --block: got '-1', wanted seconds, up to 3600"),
        (("bench", "mlp.relay", "--rounds", "0"), "argument --rounds: got '0', wanted a positive number"),
        (("run",), "the following arguments are required: F"),
    ],
)
def test_wrong_usage_is_json_where_that_is_asked_for(arguments: tuple[str, ...], message: str, call: Any) -> None:
    done = call(*arguments, "--json")
    assert done.code == 2
    assert (done.json["exit"], done.json["verb"]) == (2, arguments[0])
    assert done.json["error"] == {"kind": "UsageError", "message": message}
    assert done.err.splitlines()[-1] == f"legato {arguments[0]}: error: {message}"


def test_a_verb_that_is_none_is_json_too(call: Any) -> None:
    done = call("frobnicate", "--json")
    assert (done.code, done.json["verb"], done.json["error"]["kind"]) == (2, None, "UsageError")


# ------------------------------------------------------------------ streams


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = f"{sys.executable} -m legato"
    return subprocess.run(
        ["sh", "-c", command.replace("legato", program, 1)], capture_output=True, text=True, encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(SOURCE)} | environment,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("redirection", "reason"), [(">&-", "Bad file descriptor"), ("> /dev/full", "No space left on device")]
)
def test_an_answer_that_does_not_arrive(redirection: str, reason: str) -> None:
    done = shell(f"legato show mlp.relay {redirection}")
    assert (done.returncode, done.stderr) == (2, f"legato: standard output: {reason}\n")


def test_streams_in_ascii() -> None:
    done = shell("legato run mlp.relay --fill ones", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    Path("größe.relay").write_bytes(Path("mlp.relay").read_bytes())
    done = shell("legato check größe.relay --json", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


# ------------------------------------------------------------------ strings


def test_strings_that_files_of_numpy_change_are_not_written(call: Any, here: Path) -> None:
    """These fill up text with NUL characters, and so lose those at its end."""
    b = Builder()
    x = b.var("x", tensor_type((1,), dt.string))
    joined = b.call_op(table()["strings.concat"], [x, b.constant(np.array(["\0"], object))])
    save_text(Module.from_expr(b.function([x], joined)), here / "text.relay")
    np.savez("text.npz", x=np.array(["b"]))
    assert "['b\\x00']" in call("run", "text.relay", "-i", "text.npz").out
    for outputs in (("-o", "out.npz"), ("--dump", "out")):
        done = call("run", "text.relay", "-i", "text.npz", *outputs)
        assert done.code == 2
        assert "a string ends with a NUL character, which files of NumPy's do not keep" in done.err
    assert not Path("out.npz").exists()
