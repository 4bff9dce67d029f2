"""The names that Relay's own tests used most are here, with the original's meaning."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import legato
import tests.relay.layout_exercises  # noqa: F401  # adds some
from tests.relay.exercises import EXERCISES

ROWS = [
    tuple(line.split("\t"))
    for line in Path(__file__).with_name("names.tsv").read_text().splitlines()
    if not line.startswith("#")
]
PRESENT = [name for name, here, _ in ROWS if here != "-"]


def resolve(name: str) -> Any:
    """What `relay.…` means: attributes, and modules where they have to be imported."""
    found: Any = import_module("legato.relay")
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def test_every_name_is_exercised_or_accounted_for() -> None:
    assert set(EXERCISES) == set(PRESENT)
    assert [name for name, _, _ in ROWS] == PRESENT
    assert len(ROWS) == 85


@pytest.mark.parametrize("name", PRESENT)
def test_name(name: str) -> None:
    EXERCISES[name](resolve(name))


@pytest.mark.parametrize("name", ["ManifestAlloc"])
def test_passes_that_are_not_here_say_why(name: str) -> None:
    with pytest.raises(AttributeError, match=f"there is no pass {name}: "):
        resolve(f"relay.transform.{name}")


def imported(program: str) -> set[str]:
    """The modules that a new interpreter has imported after a program."""
    code = f"{program}; import sys; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_relay_is_not_imported_with_legato() -> None:
    assert not any(name.startswith("legato.relay") for name in imported("import legato"))
    assert legato.__version__


def test_names_for_users_are_not_imported_with_the_compiler() -> None:
    users = {
        "legato.te.names",
        "legato.te.scalar",
        "legato.script",
        "legato.relay",
        "legato.relax",
        "ml_dtypes",
        "onnx",
    }
    assert not users & imported("import legato.driver")


def test_what_builds_no_programs_is_imported_on_use() -> None:
    unwanted = (
        "legato.transform",
        "legato.lower",
        "legato.codegen",
        "legato.interp",
        "legato.script",
        "onnx",
        "llvmlite",
    )
    found = imported("from legato import relay; relay.var")
    assert "legato.relay" in found
    assert not [name for name in found if name.startswith(unwanted)]
    assert "legato.transform" in imported("from legato import relay; relay.Sequential")
