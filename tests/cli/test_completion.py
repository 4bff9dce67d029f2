"""Completion: what the scripts offer, by the machinery of the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from legato.cli import VERBS
from legato.cli._completion import Values, verbs
from legato.cli._main import make_parser
from legato.pipelines import DEFAULT
from legato.transform import table

NAMES = [verb.__name__.rpartition(".")[2] for verb in VERBS]


@pytest.fixture
def complete(call: Any, here: Path) -> Any:
    """`complete("legato", "sh")`: what bash offers for the last word, as its completion function finds it."""
    (here / "legato.bash").write_text(call("completion", "bash").out)

    def run(*words: str) -> list[str]:
        given = " ".join(f"'{word}'" for word in words)
        code = (
            f"set -u; source legato.bash; COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; "
            'function=$(complete -p legato); function=${function#*-F }; "${function%% *}" legato; '
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return sorted(filter(None, done.stdout.split("\n")))

    return run


def test_verbs(complete: Any) -> None:
    assert complete("legato", "") == sorted([*NAMES, "--help", "--version"])
    assert complete("legato", "co") == ["compile", "completion"]


def test_flags(complete: Any) -> None:
    assert complete("legato", "show", "m.onnx", "--a") == ["--after"]
    assert complete("legato", "run", "--pre") == ["--precision"]
    assert complete("legato", "doctor", "--v") == []


def test_values(complete: Any) -> None:
    assert complete("legato", "show", "m.onnx", "--after", "f") == sorted(
        {p.name for p in DEFAULT if p.name.startswith("f")}
    )
    assert {"lower", "low-precision"} <= set(complete("legato", "show", "--after", "=", "lo"))
    assert complete("legato", "show", "--after", "=") == complete("legato", "show", "--after", "")
    assert complete("legato", "opt", "-p", "fuse") == sorted(n for n in table() if n.startswith("fuse"))
    assert complete("legato", "bench", "--precision", "b") == ["bfloat16"]
    assert complete("legato", "bench", "--vs", "onnx") == ["onnxruntime"]
    assert complete("legato", "run", "--target", "x86-64-v") == ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
    assert complete("legato", "completion", "z") == ["zsh"]
    assert complete("legato", "run", "--threads", "") == []


def test_files_by_their_ends(complete: Any, here: Path) -> None:
    for name in ("a.onnx", "b c.relay", "d.legato", "e.txt", "f.npz", "g.py", "*.pt"):
        (here / name).touch()
    (here / "folder.onnx").mkdir()
    models = ["*.pt", "a.onnx", "b c.relay", "folder.onnx", "g.py", "mlp.relay"]
    assert complete("legato", "check", "") == models
    assert complete("legato", "run", "") == sorted([*models, "d.legato"])
    assert complete("legato", "run", "d.legato", "-i", "") == ["f.npz", "folder.onnx"]
    assert complete("legato", "run", "d.legato", "--input", "=", "f.") == ["f.npz"]
    assert complete("legato", "check", "--ops", "") == ["folder.onnx", "g.py"]
    assert complete("legato", "run", "--dump", "") == ["folder.onnx"]
    assert complete("legato", "run", "--generators", "") == ["c", "folder.onnx", "g.py", "onnxruntime"]
    assert complete("legato", "compile", "b") == ["b c.relay"]


def test_every_argument_is_known() -> None:
    """Those whose values are files or words of a list; of the others the user makes the value up."""
    free = {
        (verb.name, name)
        for verb in verbs(make_parser())
        for flag in verb.flags
        for name in flag.names
        if flag.values == Values()
    }
    assert {name for _, name in free} == {
        "--shape", "--constant", "--threads", "--seed", "--dim", "--rounds", "--max-rounds", "--block", "--seconds",
        "--on",
    }  # fmt: skip


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_scripts(shell: str, call: Any, here: Path) -> None:
    text = call("completion", shell).out
    for name in NAMES:
        assert name in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (here / "script").write_text(text)
    done = subprocess.run([shell, "-n", "script"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_offers_verbs_and_stages(call: Any, here: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    (here / "script.fish").write_text(call("completion", "fish").out)
    for typed, wanted in (("legato comp", "compile"), ("legato show --after simp", "simplify")):
        command = ["fish", "-c", f"source script.fish; complete -C '{typed}'"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert wanted in [line.split("\t")[0] for line in done.stdout.splitlines()]
