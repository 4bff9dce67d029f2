"""The survey of all official cases: which there are, what counts as a fault, and the small graphs of two suites."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.frontend.onnx.misses import miss, misses
from tests.frontend.onnx.node_survey import survey, told
from tests.frontend.onnx.official import Outcome, cases, fault, outcomes, read

PASSES, DIFFERS = "test_add", "test_bernoulli"


def test_all_suites() -> None:
    counts = Counter(kind for kind, _ in cases())
    assert {"node", "simple", "pytorch-operator", "pytorch-converted", "real"} == set(counts)
    assert sum(counts.values()) > 2000
    assert len({case.name for _, case in cases()}) == len(cases())


def test_each_miss_is_of_a_case() -> None:
    names = [case.name for _, case in cases()]
    assert not [entry.cases for entry in misses() if not any(re.search(entry.cases, name) for name in names)]


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
        (PASSES, "refused", True, False),
        (PASSES, "wrong", True, True),
        (DIFFERS, "wrong", False, False),
        (DIFFERS, "passes", False, True),
    ],
)
def test_faults(case: str, verdict: str, named: bool, is_fault: bool) -> None:
    one = Outcome(case, "node", verdict, "", "", 0.0)
    assert (fault(one, named=named) is not None) == is_fault
