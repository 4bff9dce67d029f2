"""Engines that are frameworks in processes of their own, from the environments that `make paper` makes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import numpy as np

from legato.base.errors import RunError
from legato.bench.engines import Array, Engine, Feeds
from legato.runtime.timing import Block
from tools.bench.peers.graph import write
from tools.bench.peers.serve import INPUTS, OUTPUTS

__all__ = ["FRAMEWORKS", "Framework", "peer_engine"]

ROOT: Final = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Framework:
    """A module that serves models, the interpreter of its environment, and the option that it takes."""

    module: str
    python: Path
    option: str = ""


def _beside(name: str, option: str = "") -> Framework:
    """A module beside this one, in the environment of its name."""
    return Framework(f"{__package__}.{name}", ROOT / f".venv-{name}/bin/python", option)


FRAMEWORKS: Final[Mapping[str, Framework]] = {
    "tensorflow": _beside("tensorflow"),
    "tensorflow-xla": _beside("tensorflow", "xla"),
    "mxnet": _beside("mxnet"),
    "tvm": _beside("tvm"),
}


class _Process:
    """A process that `serve` serves, and the folder that it reads and writes."""

    def __init__(self, framework: Framework, path: Path, feeds: Feeds, threads: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="legato-peer-"))
        weakref.finalize(self, rmtree, self._folder)
        write(path, self._folder)
        np.savez(self._folder / INPUTS, **feeds)  # type: ignore[arg-type]  # no array is called allow_pickle
        self._process = subprocess.Popen(
            [framework.python, "-m", framework.module, self._folder, str(threads), framework.option],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "OMP_NUM_THREADS": str(threads)},
        )  # fmt: skip
        weakref.finalize(self, _end, self._process)

    def answer(self) -> dict[str, Any]:
        """The next answer; RunError where it is an error, or the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RunError(f"the process ended with code {self._process.wait()}")
        data: dict[str, Any] = json.loads(line)
        if "error" in data:
            raise RunError(data["error"])
        return data

    def ask(self, what: str) -> dict[str, Any]:
        """The answer to a line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{what}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, as `answer` says
        return self.answer()

    def call(self) -> list[Array]:
        """The outputs."""
        self.ask("run")
        with np.load(self._folder / OUTPUTS) as arrays:
            return [arrays[name] for name in arrays.files]

    def block(self, seconds: float) -> Block:
        """The seconds of each call of a block, as the process sees them."""
        found: list[float] = self.ask(str(seconds))["seconds"]
        return found


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process that nobody asks any more."""
    process.kill()
    process.communicate()  # which closes its pipes and waits


def peer_engine(name: str, framework: Framework, path: Path, feeds: Feeds, threads: int, fixed: bool) -> Engine:
    """A framework on the model of an ONNX file; RunError where it is not there or cannot run the model.

    fixed: shapes are, as they have to be. The process ends when it is asked no more: with this one, at the latest.
    """
    if not framework.python.exists():
        folder = framework.python.parents[1]
        raise RunError(f"{name} is not installed\n  hint: make {folder.name}/.made")
    if not fixed:
        raise RunError(f"{name} is measured at fixed shapes alone\n  hint: give the shapes of the inputs")
    process = _Process(framework, path, feeds, threads)
    return Engine(name, process.answer()["version"], process.call, timed=process.block)
