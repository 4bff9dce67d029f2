"""What a user makes beside a model: operators and converters by --ops, passes by -p and --use, a file by no -o."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.cli._main import make_parser
from tests.cli.test_cli import save_onnx

OPS = """
from legato.ops._families import unary
from legato.te import math as te

thrice = unary("my.thrice", lambda x: x * 3, lambda x: x * te.literal(3, x), doc="Three times.")
custom = {"Frob": lambda b, x: b.call(thrice, x)}
"""
TEXT = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, 4), float32]) { my.thrice(%x) }\n'
PASSES = """
from dataclasses import replace

from legato.ir.expr import Call
from legato.ops import table
from legato.transform import function_pass

@function_pass
def spoil(func, mod):
    "Negates the result."
    return replace(func, body=Call(table()["negative"], (func.body,), ty=func.body.ty))
"""


@pytest.fixture(autouse=True)
def files(here: Path) -> None:
    Path("own.py").write_text(OPS)
    Path("m.relay").write_text(TEXT)
    save_onnx("frob.onnx", ("Frob", "Relu"))


# ------------------------------------------------------------------ --ops

VERBS: dict[str, tuple[str, ...]] = {
    "check": (), "compile": ("-o", "out.legato"), "run": ("--fill", "ones"), "verify": (), "show": ("--after", "fuse"),
    "opt": ("-p", "default"), "profile": ("--seconds", "0.01"),
    "bench": ("--rounds", "1", "--block", "0.001", "--threads", "1", "--vs", "legato-exact"),
}  # fmt: skip


@pytest.mark.parametrize("model", ["m.relay", "frob.onnx"])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_operators_and_converters(verb: str, model: str, call: Any) -> None:
    done = call(verb, model, *VERBS[verb], "--ops", "own.py")
    assert done.code == 0, done.err
    refused = call(verb, model, *VERBS[verb])
    assert refused.code in (1, 2)
    assert ("my.thrice" if model == "m.relay" else "Frob") in refused.err + refused.out


def test_every_verb_that_reads_a_model_has_the_flag() -> None:
    sub = next(a for a in make_parser()._actions if a.dest == "verb")
    assert isinstance(sub.choices, dict)
    readers = {name for name, own in sub.choices.items() if any(a.dest == "shape" for a in own._actions)}
    assert readers == set(VERBS)
    assert all("--ops" in own.format_help() for name, own in sub.choices.items() if name in readers)


def test_operators_run_what_a_compiled_program_leaves_to_python(call: Any) -> None:
    Path("own.py").write_text(OPS + "from dataclasses import replace\nthrice = replace(thrice, compute=None)\n")
    assert call("compile", "m.relay", "--ops", "own.py", "-o", "out.legato").code == 0
    np.save("x.npy", np.full((2, 4), 2, np.float32))
    done = call("run", "out.legato", "-i", "x.npy", "--ops", "own.py", "--json")
    assert done.json["outputs"][0]["mean"] == 6
    refused = call("run", "out.legato", "-i", "x.npy")
    assert "the program needs operator 'my.thrice'\n  hint: load it with --ops …" in refused.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "own.py makes no operator"),
        ("custom = 3", "own.py: custom is a int, wanted converters by name"),
        ("1 / 0", "own.py raised ZeroDivisionError: division by zero"),
        ("from legato.ops import table\nadd = table()['add']", "own.py makes no operator"),
    ],
)
def test_files_that_make_none(text: str, message: str, call: Any) -> None:
    Path("own.py").write_text(text)
    done = call("check", "m.relay", "--ops", "own.py")
    assert (done.code, done.err.splitlines()[0]) == (2, f"legato: {message}")


def test_converters_say_nothing_of_compiled_programs(call: Any) -> None:
    call("compile", "mlp.relay", "-o", "mlp.legato")
    Path("own.py").write_text("custom = {'Relu': lambda b, x: x}")
    done = call("run", "mlp.legato", "--fill", "ones", "--ops", "own.py")
    assert done.err == "legato: mlp.legato is compiled already: converters in --ops would have no effect\n"
    done = call("show", "mlp.legato", "--ops", "own.py")
    assert done.code == 2


SAME = """
import dataclasses, pickle, sys

from legato.ops._families import unary
from legato.te import math as te

@dataclasses.dataclass
class Factor:
    value: int = {value}

def reference(x):
    return x * pickle.loads(pickle.dumps(Factor())).value

by = unary("my.by_{value}", reference, lambda x: x * te.literal({value}, x), doc="Times {value}.")
by = dataclasses.replace(by, compute=None)
"""


def test_files_of_one_name_are_modules_of_their_own(call: Any) -> None:
    for folder, value in (("a", 3), ("b", 5)):
        Path(folder).mkdir()
        Path(folder, "ops.py").write_text(SAME.format(value=value))
    Path("m.relay").write_text(TEXT.replace("my.thrice(%x)", "my.by_3(my.by_5(%x))"))
    np.save("x.npy", np.ones((2, 4), np.float32))
    done = call("run", "m.relay", "-i", "x.npy", "--ops", "a/ops.py", "--ops", "b/ops.py", "--json")
    assert done.code == 0, done.err
    assert done.json["outputs"][0]["mean"] == 15


HELPED = """
from legato.ops._families import unary
from legato.te import math as te
from helper import FACTOR
from parts.inner import NAME

def reference(x):
    return x * FACTOR

made = unary(f"my.by_{NAME}", reference, lambda x: x * te.literal(FACTOR, x), doc="Times a factor.")
"""


def test_files_import_the_modules_beside_them(call: Any) -> None:
    """Of one name in two folders, each its own; a later file of a folder has what the first one has imported."""
    for folder, value in (("a", 3), ("b", 5)):
        Path(folder, "parts").mkdir(parents=True)
        Path(folder, "helper.py").write_text(f"from parts import TIMES\nFACTOR = {value} * TIMES\n")
        Path(folder, "parts", "__init__.py").write_text("TIMES = 2\n")
        Path(folder, "parts", "inner.py").write_text(f"NAME = 'by_{value}'[3:]\n")
        Path(folder, "ops.py").write_text(HELPED)
    Path("a/more.py").write_text("import helper, own_of_a\ncustom = {'Frob': lambda b, x: x}\n")
    Path("a/own_of_a.py").write_text("made = []\n")
    Path("m.relay").write_text(TEXT.replace("my.thrice(%x)", "my.by_3(my.by_5(%x))"))
    np.save("x.npy", np.ones((2, 4), np.float32))
    flags = ("--ops", "a/ops.py", "--ops", "b/ops.py", "--ops", "a/more.py")
    done = call("run", "m.relay", "-i", "x.npy", *flags, "--json")
    assert done.code == 0, done.err
    assert done.json["outputs"][0]["mean"] == 60
    late = Path("a/late.py")
    late.write_text("import helper, own_of_a\nown_of_a.made.append(helper.FACTOR)\ncustom = {'F': print}\n")
    assert call("check", "m.relay", *flags, "--ops", "a/late.py").code == 0
    assert "helper" not in sys.modules  # it stands for two
    assert sys.modules["own_of_a"].made == [6]


# ------------------------------------------------------------------ compile without -o


def test_the_file_that_compile_writes_where_none_is_named(call: Any, here: Path) -> None:
    (here / "models").mkdir()
    (here / "mlp.relay").rename(here / "models/mlp.relay")
    done = call("compile", "models/mlp.relay")
    assert done.out.startswith("written  mlp.legato: ")
    assert legato.load("mlp.legato").inputs
    before = Path("mlp.legato").read_bytes()
    again = call("compile", "models/mlp.relay", "--json")
    assert again.code == 2
    assert again.json["error"]["message"] == (
        "mlp.legato is there already: it is not replaced unless it is named\n"
        "  hint: -o mlp.legato replaces it, if it is a compiled program; -o FILE writes another one"
    )
    assert Path("mlp.legato").read_bytes() == before
    assert call("compile", "models/mlp.relay", "-o", "mlp.legato").code == 0
    Path("mlp.legato").unlink()
    Path("mlp.legato").symlink_to("nothing")
    assert call("compile", "models/mlp.relay").code == 2
    assert not Path("nothing").exists()


def test_a_file_that_appears_while_compiling_is_left_alone(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from legato import driver

    usual = driver.compile_module

    def slow(*arguments: Any) -> Any:
        Path("mlp.legato").write_text("of somebody else")
        return usual(*arguments)

    monkeypatch.setattr(driver, "compile_module", slow)
    done = call("compile", "mlp.relay")
    assert (done.code, Path("mlp.legato").read_text()) == (2, "of somebody else")


def test_what_is_compiled_is_not_compiled_again(call: Any) -> None:
    call("compile", "mlp.relay")
    done = call("compile", "mlp.legato")
    assert done.err == "legato: mlp.legato is compiled already\n  hint: compile the model that it is made of\n"


# ------------------------------------------------------------------ verify -p


def test_verify_names_passes_and_nodes_as_they_were_written(call: Any) -> None:
    Path("spoil.py").write_text(PASSES)
    assert call("verify", "mlp.relay", "-p", "fold-constant, fuse{max-ops=2}").code == 0
    done = call("verify", "mlp.relay", "-p", "default", "-p", "spoil", "--use", "spoil.py", "--bisect")
    assert done.code == 1
    assert "to blame: pass spoil changes what " in done.out
    assert call("verify", "mlp.relay", "--use", "spoil.py").code == 2
    assert "there is no pass spoil" in call("verify", "mlp.relay", "-p", "spoil").err


def test_compile_says_the_memory_at_batch_1(call: Any) -> None:
    Path("m.relay").write_text(
        '#[version = "0.0.5"]\ndef @main(%x: Tensor[(n, 64), float32]) { nn.softmax(nn.softmax(%x, axis=0), axis=1) }\n'
    )
    data = call("compile", "m.relay", "--json").json
    exe = legato.load("m.legato")
    assert (data["peak_at"], data["peak_bytes"]) == ({"n": 1}, exe.peak_memory(n=1))
    assert data["peak_memory"] == exe.peak_memory.formula
    assert str(exe.peak_memory) == f"{exe.peak_memory(n=1)} bytes at n = 1: {exe.peak_memory.formula}"
    line = next(line for line in call("compile", "m.relay", "-o", "m.legato").out.splitlines() if "memory" in line)
    assert " per call at n = 1, beside the weights; in general " in line
    json.dumps(data)
