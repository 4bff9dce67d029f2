"""The faults that are put into sources, and what is said of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.faults import __main__ as faults
from tools.faults.judge import Judge, Try
from tools.faults.rules import RULES, faults_of
from tools.faults.suite import Suite, Tree

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


@pytest.mark.heavy
def test_faults_are_picked_by_the_seed_and_seen_by_tests(tree: Path) -> None:
    chosen = list(faults.picked({"arith": 3}, 2, tree))
    assert chosen == list(faults.picked({"arith": 3}, 2, tree))
    assert len(set(chosen)) == 3
    text = (tree / "src/legato/arith/sums.py").read_text()
    told: list[Try] = []
    done = Judge(Suite(Tree(tree), "arith", 600), told.append).verdicts(chosen)
    assert [one.fault for one in done] == [one.fault for one in chosen]
    assert set(done) == set(told)
    verdicts = {one.fault.rule: (one.verdict, one.test) for one in done}
    assert verdicts["minus for plus"] == ("killed", "tests/arith/test_sums.py::test_add[a - b]")
    assert verdicts["comparison"] == ("survived", "")
    assert text == (tree / "src/legato/arith/sums.py").read_text()
    assert faults.scores(done)["arith"] == faults.scores(done)["all"] == (sum(o.verdict == "killed" for o in done), 3)


def test_a_test_that_crashes_is_one_that_sees(tree: Path) -> None:
    suite = Suite(Tree(tree), "arith", 600)
    assert suite.near("src/legato/arith/sums.py") == ["tests/arith/test_sums.py"]
    (tree / "tests/arith/test_a.py").write_text("import os\ndef test_a(): assert False\ndef test_z(): os.abort()")
    assert suite.first(suite.files, ["tests/arith/test_a.py::test_a"]) == "tests/arith/test_a.py::test_z"
    assert not suite.passes("tests/arith/test_a.py::test_z")


def test_every_area_has_sources_and_tests() -> None:
    for area in faults.AREAS:
        for part in area.split("+"):
            assert (faults.ROOT / "src/legato" / part).is_dir()
            assert (faults.ROOT / "tests" / part).is_dir()
    assert sum(faults.AREAS.values()) == 60
