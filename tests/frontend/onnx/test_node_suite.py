"""The official node tests of the installed onnx package: each passes, or is excluded with a reason and then fails."""

from __future__ import annotations

import re

import pytest

from legato.base.errors import LegatoError, UnsupportedError
from tests.frontend.onnx.node_suite import cases, in_both_ways, kinds, outcome
from tests.frontend.onnx.node_survey import survey, told

SHARDS = 4
ANY_EXTENT = 0.9  # of the cases that take inputs of any extent
MOST_KINDS = 300  # of operators, inputs and attributes are imported

PLAIN = r"(?!.*_expanded)"  # the case itself, not the one that spells its operator out in simpler ones
EXCLUDED = (
    # what Legato does not have
    (r"cast.*(FLOAT8|E4M3|E5M2|e8m0|FLOAT4|float4)", "8- and 4-bit floats"),
    (r"cast.*(INT4|INT2)", "integers below 8 bits"),
    (r"^test_loop16_seq_none$", "a sequence whose elements are not of the type that it declares"),
    (r"string|strnorm|tfidf|regex|_STRING", "strings"),
    (r"^test_ai_onnx_ml_", "classical machine learning"),
    (r"quantizelinear|qlinear|^test_(matmulinteger|convinteger)", "quantised operators"),
    (r"^test_(adam|adagrad|momentum|nesterov)", "training: optimisers"),
    (r"^test_training_dropout", "training mode"),
    (r"^test_bernoulli", "random numbers: each library draws its own"),
    # operators that are not written yet
    (rf"^test_(linear_attention|causal_conv_with_state|flexattention){PLAIN}", "not written yet"),
    (r"^test_bitcast", "not written yet"),
    # single uses
    (r"^test_maxunpool_export_with_output_shape", "positions of another shape than that of the result"),
    (r"^test_dft_inverse", "expected values with the rounding of float32: 2e-7 where the exact result is 0"),
    (r"^test_not_[234]d", "operator set 1"),
)


def reason(name: str) -> str | None:
    """Why the case is excluded."""
    return next((why for pattern, why in EXCLUDED if re.search(pattern, name)), None)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_nodes(shard: int) -> None:
    failures: list[str] = []
    passed = excluded = 0
    for case in cases()[shard::SHARDS]:
        try:
            found = outcome(case)
        except LegatoError as error:
            found = str(error)
        why = reason(case.name)
        passed += found is None
        excluded += found is not None and why is not None
        if found is None and why is not None:
            failures.append(f"{case.name} passes, but is excluded ({why})")
        if found is not None and why is None:
            failures.append(f"{case.name}: {found}")
    print(f"node tests, part {shard + 1} of {SHARDS}: {passed} passed, {excluded} excluded")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_any_extent(shard: int) -> None:
    """With a name for every extent of every input each case passes or is refused, and few are."""
    found = [survey(case, named=True, compiled=False) for case in cases()[shard::SHARDS] if reason(case.name) is None]
    wrong = [f for f in found if f.verdict == "wrong"]
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
