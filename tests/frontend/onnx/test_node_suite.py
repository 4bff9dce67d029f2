"""The official node tests of the installed onnx package: each passes, or is in `misses.toml` and then fails."""

from __future__ import annotations

import pytest

from legato.base.errors import LegatoError, UnsupportedError
from tests.frontend.onnx.misses import miss
from tests.frontend.onnx.node_suite import cases, in_both_ways, kinds, outcome
from tests.frontend.onnx.node_survey import survey, told
from tests.heavy import light

SHARDS = 4
ANY_EXTENT = 0.9  # of the cases that take inputs of any extent
MOST_KINDS = 300  # of operators, inputs and attributes are imported


@pytest.mark.parametrize("shard", range(SHARDS))
def test_nodes(shard: int) -> None:
    failures: list[str] = []
    passed = excluded = 0
    for case in cases()[shard::SHARDS]:
        try:
            found = outcome(case)
        except LegatoError as error:
            found = str(error)
        expected = miss(case.name)
        passed += found is None
        excluded += found is not None and expected is not None
        if found is None and expected is not None:
            failures.append(f"{case.name} passes, but is excluded ({expected.reason})")
        if found is not None and expected is None:
            failures.append(f"{case.name}: {found}")
    print(f"node tests, part {shard + 1} of {SHARDS}: {passed} passed, {excluded} excluded")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("shard", light(range(SHARDS), (0,)))
def test_any_extent(shard: int) -> None:
    """With a name for every extent of every input each case passes or is refused, and few are."""
    found = [survey(case, named=True, compiled=False) for case in cases()[shard::SHARDS] if miss(case.name) is None]
    wrong = [f for f in found if f.verdict in ("wrong", "called")]
    assert not wrong, told(wrong)
    assert sum(f.verdict == "passes" for f in found) > ANY_EXTENT * len(found), told(found)


def test_inputs_or_initializers() -> None:
    """What may be a constant gives the same results as one and as an input: shapes, axes, bounds, lengths, weights."""
    failures: list[str] = []
    compared = 0
    for case in kinds().values():
        try:
            difference = in_both_ways(case)
        except UnsupportedError:
            continue
        compared += 1
        if difference is not None:
            failures.append(f"{case.name}: {difference}")
    assert not failures, "\n".join(failures)
    assert compared > MOST_KINDS
