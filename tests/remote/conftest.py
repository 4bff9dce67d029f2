"""Another machine: this one, behind a program that is called ssh."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import legato
from legato.runtime import Executable

RELU = """
#[version = "0.0.5"]
def @main(%x: Tensor[(n, 3), float32]) -> Tensor[(n, 3), float32] { nn.relu(%x) }
"""


class Machine:
    """A folder in the place of a machine: see `fake_ssh`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        self.put("python3", f'exec "{sys.executable}" "$@"')
        for name in ("json", "random", "struct", "numpy", "legato"):  # of whoever is there: nothing for us to import
            (folder / f"{name}.py").write_text("raise SystemExit('a file of the home was run')\n")

    def put(self, name: str, script: str) -> None:
        """A program that the machine has."""
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def says(self, text: str) -> None:
        """What its login shell prints whenever somebody comes."""
        (self.folder / "said").write_text(text)

    @property
    def calls(self) -> list[Any]:
        """What ssh was called with."""
        log = self.folder / "log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def sent(self) -> list[Path]:
        """The files that were sent there and are kept."""
        return sorted((self.folder / ".cache/legato/sent").glob("*"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    ssh = tmp_path / "here" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).parent / "fake_ssh.py"}" "$@"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("FAKE_PATH", os.environ["PATH"])
    monkeypatch.setenv("PATH", f"{ssh.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_MACHINE", str(tmp_path / "there"))
    monkeypatch.chdir(tmp_path)
    return Machine(tmp_path / "there")


@pytest.fixture(scope="session")
def exe() -> Executable:
    return legato.compile(legato.parse(RELU))


@pytest.fixture
def artifact(exe: Executable, tmp_path: Path) -> Path:
    exe.save(tmp_path / "relu.legato")
    return tmp_path / "relu.legato"


@pytest.fixture
def x(tmp_path: Path) -> np.ndarray:
    """An input, in x.npz as well."""
    found = np.random.default_rng(0).standard_normal((5, 3), np.float32)
    np.savez(tmp_path / "x.npz", x=found)
    return found
