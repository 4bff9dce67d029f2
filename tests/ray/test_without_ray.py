"""Where Ray is not installed: nobody imports it, and what needs it says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from legato.base.errors import RunError
from legato.ray._source import threads_of

HIDDEN = """
import sys
sys.modules["ray"] = None  # as where it is not installed
import legato, legato.ray
from legato.base.errors import MissingError
for make in (legato.ray.batch_predictor, legato.ray.deployment):
    try:
        make("model.legato")
    except MissingError as error:
        print(error.name, str(error).splitlines()[-1])
"""


def test_an_error_says_what_to_install() -> None:
    root = Path(__file__).parents[2] / "src"
    done = subprocess.run([sys.executable, "-c", HIDDEN], check=True, capture_output=True, text=True, cwd=root)
    assert done.stdout.splitlines() == ['ray   hint: pip install "legato[ray]"'] * 2


def test_legato_imports_no_ray() -> None:
    root = Path(__file__).parents[2] / "src"
    code = "import sys, legato, legato.ray, legato.cli; print([m for m in sys.modules if m.split('.')[0] == 'ray'])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=root)
    assert done.stdout.strip() == "[]"


def test_threads_are_those_that_ray_gives() -> None:
    assert [threads_of({"CPU": n}, None) for n in (0.5, 1.0, 2.0, 3.9)] == [1, 1, 2, 3]
    assert threads_of({}, None) == 1
    assert threads_of({"CPU": 4.0}, 2) == 2
    with pytest.raises(RunError, match="threads: got 4, and Ray has given this worker 2"):
        threads_of({"CPU": 2.0}, 4)
