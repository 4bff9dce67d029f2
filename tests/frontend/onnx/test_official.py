"""The survey of all official cases: which there are, what counts as a fault, and the small graphs of two suites."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.frontend.onnx.misses import MISSES, NAMED, miss, misses
from tests.frontend.onnx.node_survey import survey, told
from tests.frontend.onnx.official import Outcome, cases, fault, outcomes, read

PASSES, DIFFERS, REFUSED = "test_add", "test_bernoulli", "test_loop16_seq_none"
RANKED, CALLED = "test_squeeze", "test_operator_add_size1_broadcast"  # where extents have names


def test_all_suites() -> None:
    counts = Counter(kind for kind, _ in cases())
    assert {"node", "simple", "pytorch-operator", "pytorch-converted", "real"} == set(counts)
    assert sum(counts.values()) > 2000
    assert len({case.name for _, case in cases()}) == len(cases())


@pytest.mark.parametrize("path", [MISSES, NAMED], ids=lambda path: path.name)
def test_each_miss_is_of_a_case(path: Path) -> None:
    names = [case.name for _, case in cases()]
    assert not [entry.cases for entry in misses(path) if not any(re.search(entry.cases, name) for name in names)]


def test_no_case_is_in_both_files() -> None:
    assert not [case.name for _, case in cases() if miss(case.name) is not None and miss(case.name, NAMED) is not None]


def test_exports() -> None:
    """Graphs that PyTorch wrote years ago, and others of a few nodes."""
    found = []
    for kind, case in cases():
        if kind in ("simple", "pytorch-operator", "pytorch-converted") and miss(case.name) is None:
            found.append(survey(read(case), named=False, compiled=False))
    assert all(f.verdict == "passes" for f in found), told(found)


def test_outcomes_are_of_processes_of_their_own() -> None:
    found = {one.case: one for one in outcomes(f"^({PASSES}|test_expand_shape_model1)$")}
    assert {one.verdict for one in found.values()} == {"passes"}
    assert {one.suite for one in found.values()} == {"node", "simple"}


@pytest.mark.parametrize(
    ("case", "verdict", "named", "is_fault"),
    [
        (PASSES, "passes", False, False),
        (PASSES, "refused", False, True),
        (PASSES, "refused", True, True),
        (PASSES, "called", True, True),
        (PASSES, "wrong", True, True),
        (DIFFERS, "wrong", False, False),
        (DIFFERS, "wrong", True, False),
        (DIFFERS, "passes", False, True),
        (REFUSED, "refused", True, False),
        (REFUSED, "wrong", True, True),
        (RANKED, "refused", True, False),
        (RANKED, "refused", False, True),
        (RANKED, "called", True, True),
        (RANKED, "wrong", True, True),
        (RANKED, "passes", True, True),
        (CALLED, "called", True, False),
        (CALLED, "called", False, True),
        (CALLED, "refused", True, True),
        (CALLED, "wrong", True, True),
    ],
)
def test_faults(case: str, verdict: str, named: bool, is_fault: bool) -> None:
    one = Outcome(case, "node", verdict, "", "", 0.0)
    assert (fault(one, named=named) is not None) == is_fault
