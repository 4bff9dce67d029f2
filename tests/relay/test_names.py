"""The names that Relay's own tests used most are here, with the original's meaning."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import legato
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
    assert len(ROWS) == 80


@pytest.mark.parametrize("name", PRESENT)
def test_name(name: str) -> None:
    EXERCISES[name](resolve(name))


@pytest.mark.parametrize("name", ["ConvertLayout", "PlanDevices"])
def test_passes_that_are_not_here_say_why(name: str) -> None:
    with pytest.raises(AttributeError, match=f"there is no pass {name}: "):
        resolve(f"relay.transform.{name}")


def test_relay_is_not_imported_with_legato() -> None:
    import subprocess
    import sys

    code = "import sys, legato; sys.exit(any(m.startswith('legato.relay') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert legato.__version__
