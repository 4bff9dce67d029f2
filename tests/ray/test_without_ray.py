"""Where Ray is not installed: nobody imports it, and what needs it says what to install."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import legato.ray
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


def test_legato_imports_no_ray(tmp_path: Path) -> None:
    """There is a Ray that says so when it is imported."""
    root = Path(__file__).parents[2] / "src"
    (tmp_path / "ray.py").write_text("print('imported')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import legato, legato.ray, legato.cli"
    for more, wanted in (("", ""), ("; import ray", "imported")):
        done = subprocess.run([sys.executable, "-c", code + more], check=True, capture_output=True, text=True, cwd=root)
        assert done.stdout.strip() == wanted


@pytest.mark.parametrize("make", [legato.ray.batch_predictor, legato.ray.deployment])
def test_numbers_that_make_no_sense_are_refused(make: Callable[..., object]) -> None:
    """Before anything is asked of Ray."""
    for threads in (0, -1, "2", 1.5, True):
        with pytest.raises(RunError, match=r"threads: got .*, wanted a positive number, or None"):
            make("model.legato", threads=threads)
    for wait in (-1, float("nan"), float("inf"), "1", None):
        with pytest.raises(RunError, match=r"batch_wait_timeout_s: got .*, wanted seconds, from 0 on"):
            legato.ray.deployment("model.legato", batch_wait_timeout_s=wait)  # type: ignore[arg-type]


def test_threads_are_those_that_ray_gives() -> None:
    assert [threads_of({"CPU": n}, None) for n in (0.5, 1.0, 2.0, 3.9)] == [1, 1, 2, 3]
    assert threads_of({}, None) == 1
    assert threads_of({"CPU": 4.0}, 2) == 2
    with pytest.raises(RunError, match=r"threads: got 4, and Ray has given this worker 2"):
        threads_of({"CPU": 2.0}, 4)
