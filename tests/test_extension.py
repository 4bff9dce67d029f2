"""One operator in one file, one pass in one file: a script of a user's own, run from a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import legato
from legato.base.errors import CompileError, ParseError, RunError
from tests.extension.own_operator import TEXT, median, squareplus

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests" / "extension" / "own_operator.py"


def test_a_script_outside_the_package(tmp_path: Path) -> None:
    script = shutil.copy(SCRIPT, tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "error", script, tmp_path]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["builder", "text", "onnx", "median"]


def test_an_operator_that_was_not_given() -> None:
    with pytest.raises(ParseError, match=r"my\.squareplus"):
        legato.parse(TEXT)


def test_an_artifact_whose_operator_was_not_given(tmp_path: Path) -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(3,), float32]) { my.median(%x) }'
    legato.compile(legato.parse(text, ops=[median]), ops=[median]).save(tmp_path / "m.legato")
    exe = legato.load(tmp_path / "m.legato")
    with pytest.raises(RunError, match=r"operator my\.median failed") as error:
        exe(np.ones(3, np.float32))
    assert "hint: load it in Python, with ops=[…]" in str(error.value)


def test_a_name_that_is_taken() -> None:
    with pytest.raises(CompileError, match="an operator called 'tanh' exists already"):
        legato.parse(TEXT, ops=[replace(squareplus, name="tanh")])
