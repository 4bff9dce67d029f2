"""Operators by name: found without importing all of them, and the same ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

from legato.ops import table

LOOK_UP = """
import sys
from legato.ops import table
found = [table()[name].name for name in ("nn.conv2d", "add", "nn.relu")]
print(*found, sum(m.startswith("legato.ops.") for m in sys.modules), "nonsense" in table(), len(table()))
"""


def test_every_operator_is_found_by_its_name() -> None:
    operators = table()
    assert list(operators) == sorted(operators)
    assert all(operators[name] is op and op.name == name for name, op in operators.items())
    with pytest.raises(KeyError):
        operators["nonsense"]


def test_a_look_up_imports_little() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK_UP], check=True, capture_output=True, text=True)
    *found, modules, nonsense, count = done.stdout.split()
    assert found == ["nn.conv2d", "add", "nn.relu"]
    assert int(modules) < 25
    assert (nonsense, int(count)) == ("False", len(table()))
