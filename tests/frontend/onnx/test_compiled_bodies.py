"""Loops, branches, sequences and optional values as machine code: what the interpreter gives, with no host operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import RunError
from legato.frontend.onnx import from_onnx
from legato.interp import evaluate
from tests.frontend.onnx import node_suite as suite
from tests.frontend.onnx.peer import model, value
from tests.frontend.onnx.test_control import X, graph, loop, node
from tests.frontend.onnx.test_sequence import MAKE, P

CASES = (
    "test_if", "test_if_seq", "test_if_opt", "test_identity_opt", "test_loop11", "test_loop13_seq", "test_scan_sum",
    "test_scan9_sum", "test_sequence_insert_at_back", "test_sequence_map_add_2_sequences_expanded",
    "test_optional_get_element_optional_sequence", "test_sequence_map_identity_2_sequences",
    "test_linear_attention_delta_expanded",
)  # fmt: skip


def flat(args: list[Any]) -> list[Any]:
    """Arguments as executables take them: a sequence of known length as its elements."""
    return [leaf for arg in args for leaf in (arg if isinstance(arg, tuple) else (arg,))]


@pytest.mark.parametrize("name", CASES)
def test_node_tests(name: str) -> None:
    (case,) = (c for c in suite.cases() if c.name == name)
    inputs, outputs = case.data_sets[0]
    feeds = dict(zip((v.name for v in case.model.graph.input), map(suite.array_of, inputs), strict=False))
    module = suite.imported(case.model, feeds)
    exe = legato.compile(module)
    args = [suite.argument(feeds[p.name], p.ty) for p in module["main"].params]
    found = list(suite.leaves(exe(*flat(args))))
    assert suite.compare(found, list(suite.leaves(list(map(suite.array_of, outputs)))), case.rtol, case.atol) is None
    assert exe.stats["host_operators"] == 0


def test_lists_by_position() -> None:
    for operator in ("SequenceAt", "SequenceErase", "SequenceInsert"):
        makes = [node(operator, "s p", "y")]
        if operator != "SequenceAt":
            reads = "s x p" if operator == "SequenceInsert" else "s p"
            makes = [node(operator, reads, "t"), node("SequenceAt", "t one", "y")]
        module = from_onnx(model([*MAKE, *makes], [value("x", (3, 4)), P], weights={"one": np.array(1)}))
        exe = legato.compile(module)
        for position in (0, 1, -1, -3):
            wanted = evaluate(module, [X, np.array(position)])
            np.testing.assert_allclose(exe(X, np.array(position)), wanted, rtol=1e-5)
        for position in (7, -9):
            with pytest.raises(RunError, match=rf"no clause of match at .*{operator}"):
                exe(X, np.array(position))


def test_loops_of_many_rounds() -> None:
    body = graph([node("Identity", "c", "d"), node("Neg", "a", "b")], "i c a", "d b")
    exe = legato.compile(model([loop("n - x", "y", body)], [value("x", (3, 4)), value("n", (), "int64")]))
    np.testing.assert_array_equal(exe(X, np.array(200_001)), -X)
    np.testing.assert_array_equal(exe(X, np.array(-5)), X)
