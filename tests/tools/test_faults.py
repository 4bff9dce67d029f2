"""The faults that are put into sources, and what is said of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.faults import __main__ as faults
from tools.faults.rules import RULES, faults_of

SOURCE = """
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

__all__ = ["a", "b", "c"]


def f(x: tuple[int, int, int], y, z):
    "é < 1"
    if x < 0 and y:
        raise ValueError(f"{x + 1}")
    key = ("é", x, y)
    kinds: object = dict[str, tuple[int, int, int]] if isinstance(x, y) else None
    return g(x, y, z=min(x[1], 2 + y)), key
"""
TEST = """
import pytest
from legato.arith.sums import add

@pytest.mark.parametrize("x", [2], ids=["a - b"])
def test_add(x): assert add(x, 3) == 5
"""
WANTED = {
    ("comparison", "x < 0 => (x <= 0)"),
    ("and for or", "x < 0 and y => ((x < 0) or (y))"),
    ("dropped condition", "x < 0 and y => ((x < 0))"),
    ("inverted condition", "x < 0 and y => (not (x < 0 and y))"),
    ("inverted condition", "isinstance(x, y) => (not (isinstance(x, y)))"),
    ("dropped check", "x < 0 and y => False"),
    ("min for max", "min => max"),
    ("off by one", "0 => 1"),
    ("off by one", "1 => 2"),
    ("off by one", "2 => 3"),
    ("minus for plus", "2 + y => (2 - y)"),
    ("dropped element", """("é", x, y) => ('é', x)"""),
    ("swapped arguments", "g(x, y, z=min(x[1], 2 + y)) => g(y, x, z=min(x[1], 2 + y))"),
    ("dropped argument", "g(x, y, z=min(x[1], 2 + y)) => g(x, y)"),
}


def test_every_rule_finds_its_faults_and_nothing_else_is_touched() -> None:
    found = faults_of(SOURCE)
    assert {(f.rule, f.shown(SOURCE)) for f in found} == WANTED
    assert {f.rule for f in found} == set(RULES)
    for fault in found:
        ast.parse(fault.applied(SOURCE))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project of one function whose test sees whether it adds, and of a test that fails whatever it does."""
    for name, text in {
        "src/legato/arith/sums.py": "def add(x, y):\n    if x is None and y is None: return 0\n    return x + y\n",
        "tests/arith/test_sums.py": TEST,
        "tests/arith/test_a.py": "def test_wrong(): assert False\n",
        "src/legato/__init__.py": "", "src/legato/arith/__init__.py": "",
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["src"]\nmarkers = ["models: x"]\n',
    }.items():  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_faults_are_picked_by_the_seed_and_seen_by_tests(tree: Path) -> None:
    chosen = list(faults.picked({"arith": 5}, 0, tree))
    assert chosen == list(faults.picked({"arith": 5}, 0, tree))
    assert len(set(chosen)) == 5
    before = (tree / "src/legato/arith/sums.py").read_text()
    broken = set[str]()
    done = {
        one.fault.rule: faults.run(tree, one, 60, broken)
        for one in chosen
        if one.fault.rule in ("minus for plus", "comparison")
    }
    assert done["minus for plus"].verdict == "killed"
    assert done["minus for plus"].test == "tests/arith/test_sums.py::test_add[a - b]"
    assert done["comparison"].verdict == "survived"
    assert (tree / "src/legato/arith/sums.py").read_text() == before
    assert faults.suite(chosen[0], tree) == ["tests/arith/test_sums.py", "tests/arith/test_a.py"]
    assert broken == {"tests/arith/test_a.py::test_wrong"}
    assert faults.scores(list(done.values())) == {"arith": (1, 2), "all": (1, 2)}


def test_every_area_has_sources_and_tests() -> None:
    for area in faults.AREAS:
        for part in area.split("+"):
            assert (faults.ROOT / "src/legato" / part).is_dir()
            assert (faults.ROOT / "tests" / part).is_dir()
    assert sum(faults.AREAS.values()) == 60
