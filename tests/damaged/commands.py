"""Command lines at random: every verb with every option, files of the wrong kind, folders, devices, odd names."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

import legato
from legato.cli import VERBS, main
from legato.cli._main import make_parser
from legato.ir.json_save import save_json
from legato.runtime.artifact import to_bytes
from tests.damaged.onnx_models import network
from tests.damaged.trees import flipped

__all__ = ["attempt", "command_line", "contents"]

_MLP = """#[version = "0.0.5"]
def @main(%x: Tensor[(n, 4), float32], %w: Tensor[(3, 4), float32]) { nn.relu(nn.dense(%x, %w)) }
"""
_READ = ("mlp.relay", "mlp.legato", "net.onnx", "mlp.json", "in.npz", "bad.relay", "bad.legato", "bad.onnx", "bad.npz",
         "bad.json", "empty.onnx", "empty.relay", "empty.legato", "folder", "folder.onnx", "none.onnx", "pipe.relay",
         "pipe.legato", "zero.onnx", "link.relay", "dangling.onnx", "größer 模型\n.onnx", "b\udcff.relay", "", ".",
         "..", "/", "-", "a\0b.relay", "x" * 300 + ".onnx", "/proc/self/mem", "/dev/null", "secret.relay",
         "text.legato", "model.onnx.legato", "mlp.RELAY", "mlp", "in.npy")  # fmt: skip
_WRITTEN = ("out.legato", "out.npz", "out.txt", "folder", "none/out.legato", "/dev/null", "/dev/full", "mlp.relay",
            "link.relay", "in.npz", "pipe.out", "", "ü\n.legato", "a\0b", "x" * 300, "/proc/out", "closed/out.npz",
            )  # fmt: skip
_PASSES = ("default", "simplify,fuse", "to-a-normal,fuse{max-ops=0}", "fuse{max-ops=1e9}", "legalize{skip=[", "fuse{",
           "exact, bfloat16")  # fmt: skip
_WORDS = ("", "0", "1", "-1", "3", "64", "1e9", "nan", "inf", "0.01", "0.02", "²", "x=1,4", "x=", "=4", "x=?,?", "n=8",
          "n=0", "n=-1", "n=1,8,1..64", "n=99999999999999999999", "x=n,4", "x=" + "9" * 30, "w=3,4", "x=a,b,c", "fuse",
          "tir", "lower", "none", "random", "exact", "host", "x86-64-v2", "x86-64-v3", "pdp-11", "\udcff", "é", "a\0b",
          "x86-64-v2,y", "onnxruntime", "interpreter", "main", "--", "-o", "1e-3", "100000000", "0.5")  # fmt: skip


def attempt(number: int, folder: Path) -> bool:
    """A command line, run in a folder of such files. False where it is refused; AssertionError where it answers as none
    may."""
    rng = Random(number)
    os.chdir(_filled(folder))
    given = command_line(rng)
    code, out, err = _run(given)
    said = f"{given!r}: exit code {code}\n{out[-2000:]}\n{err[-4000:]}"
    assert code in (0, 1, 2), said
    assert "Traceback" not in err, said
    if "--json" in given and out and not {"-h", "--help", "--version"} & set(given):
        assert json.loads(out)["exit"] == code, said
    return code == 0


def command_line(rng: Random) -> list[str]:
    """A verb, files, and some of its options, with values that fit or do not."""
    verb = rng.choice(VERBS).__name__.rpartition(".")[2]
    actions = _actions()[verb]
    given = [verb] if rng.random() < 0.97 else [rng.choice(("", "verb", "-h", "--version", "--json"))]
    for action in actions:
        if not action.option_strings:
            count = rng.choice((1, 1, 1, 1, 1, 1, 0, 2))
            given += [_word(rng, action) for _ in range(count)]
    for action in rng.sample(actions, min(len(actions), rng.choice((0, 1, 1, 2, 3)))):
        if action.option_strings:
            given.append(rng.choice(action.option_strings))
            if action.nargs != 0:
                given.append(_word(rng, action))
    if rng.random() < 0.2:
        given.append("--json")
    if verb == "run" and rng.random() < 0.7:
        given += ["--fill", "ones"]
    if verb in ("bench", "profile"):
        given += ["--seconds", "0.01"]
    if rng.random() < 0.05:
        rng.shuffle(given)
    return given


def _word(rng: Random, action: argparse.Action) -> str:
    if rng.random() < 0.05:
        return rng.choice((*_READ, *_WORDS))
    if action.choices is not None and rng.random() < 0.9:
        return str(rng.choice(list(action.choices)))
    if action.dest in ("output", "trace", "html"):
        return rng.choice(_WRITTEN)
    if action.dest == "passes":
        return rng.choice(_PASSES)
    if action.dest in ("model", "input"):
        return rng.choice((*_READ, *_READ[:5] * 8))
    return rng.choice(_WORDS)


@cache
def _actions() -> dict[str, list[argparse.Action]]:
    """The arguments of each verb."""
    verbs = next(a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return {name: list(own._actions) for name, own in verbs.choices.items()}


def _run(given: Sequence[str]) -> tuple[int, str, str]:
    """Exit code and what is printed, as the command line has it."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(given)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, *(stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err))  # type: ignore[attr-defined]


def _filled(folder: Path) -> Path:
    """The folder with all that may be read in it."""
    for name, data in contents().items():
        (folder / name).write_bytes(data)
    for name in ("folder", "folder.onnx", "closed"):
        (folder / name).mkdir()
    (folder / "closed").chmod(0o500)
    for name in ("pipe.relay", "pipe.legato"):
        os.mkfifo(folder / name)
    (folder / "zero.onnx").symlink_to("/dev/zero")
    (folder / "link.relay").symlink_to("mlp.relay")
    (folder / "dangling.onnx").symlink_to("nowhere")
    (folder / "secret.relay").touch(0o000)
    return folder


@cache
def contents() -> dict[str, bytes]:
    rng = Random(0)
    module = legato.parse(_MLP)
    artifact = to_bytes(legato.compile(module, threads=1)._parts)
    arrays, array = io.BytesIO(), io.BytesIO()
    np.savez(arrays, x=np.ones((2, 4), np.float32), w=np.ones((3, 4), np.float32))
    np.save(array, np.ones((2, 4), np.float32))
    model = network(rng).SerializeToString()
    found = {
        "mlp.relay": _MLP.encode(), "mlp.legato": artifact, "net.onnx": model, "in.npz": arrays.getvalue(),
        "mlp.json": save_json(module).encode(), "in.npy": array.getvalue(),
        "größer 模型\n.onnx": model, "b\udcff.relay": _MLP.encode(), "mlp": _MLP.encode(), "mlp.RELAY": _MLP.encode(),
        "text.legato": _MLP.encode(), "model.onnx.legato": model,
        "empty.onnx": b"", "empty.relay": b"", "empty.legato": b"",
    }  # fmt: skip
    bad = {"relay": "mlp.relay", "legato": "mlp.legato", "onnx": "net.onnx", "npz": "in.npz", "json": "mlp.json"}
    return {**found, **{f"bad.{suffix}": flipped(found[name], rng) for suffix, name in bad.items()}}
