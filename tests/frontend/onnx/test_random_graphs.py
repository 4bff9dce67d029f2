"""Random graphs: compiled as interpreted, and as ONNX Runtime has them; where that is off, the interpreter says so."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import legato
from legato.base.errors import CompileError, InternalError, RunError
from legato.compare.report import judge
from legato.frontend.onnx import from_onnx
from legato.interp import evaluate
from legato.ir.module import Module
from tests.frontend.onnx.peer import ort_outputs
from tests.frontend.onnx.random_graphs import Array, Graph, draw

COUNT = int(os.environ.get("LEGATO_FUZZ", "24"))
BATCH = 12


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_random_graphs(first: int) -> None:
    found = Counter(outcome(draw(seed)) for seed in range(first, min(first + BATCH, COUNT)))
    assert found.total() - found["refused"] > 0


def outcome(graph: Graph) -> str:
    """What came of a graph: "right", "refused", or the peer that was off. AssertionError, with the graph, where Legato
    is wrong, and where it fails with no error of its own."""
    try:
        module = from_onnx(graph.proto, shapes=graph.shapes)
        exe = legato.compile(module)
    except InternalError:
        raise
    except CompileError:
        return "refused"
    inputs = [graph.feeds[p.name] for p in module["main"].params]
    native, exact, got = (_run(f, inputs) for f in (_interpreter(module, False), _interpreter(module, True), exe))
    assert (native is None) == (got is None), f"one of interpreter and compiled code refuses: {graph}"
    if native is None or got is None or exact is None:
        return "refused"
    for ours, wide, own in zip(got, exact, native, strict=True):
        assert ours.dtype == own.dtype, str(graph)
        assert judge("", ours, wide, own).holds, f"compiled {ours}\ninterpreted {own}\nin float64 {wide}\n{graph}"
    return _against_peers(graph, native, exact)


def _against_peers(graph: Graph, native: Sequence[Array], exact: Sequence[Array]) -> str:
    wanted = _tried(lambda: ort_outputs(graph.proto, graph.feeds))
    if wanted is None:
        return "refused by ONNX Runtime"
    if all(map(_agree, native, exact, wanted)):
        return "right"
    reference = _tried(lambda: ReferenceEvaluator(graph.proto).run(None, dict(graph.feeds)))
    pairs = zip(native, exact, wanted, reference or [None] * len(native), strict=True)
    for own, wide, theirs, other in pairs:
        right = _agree(own, wide, theirs) or (other is not None and _agree(own, wide, np.asarray(other)))
        assert right, f"interpreted {own}\nONNX Runtime {theirs}\nreference {other}\n{graph}"
    return "ONNX Runtime is off"


def _agree(own: Array, wide: Array, theirs: Array) -> bool:
    if own.dtype.kind == "i" and own.shape == theirs.shape:  # what NaN is as an integer ONNX does not say
        theirs = np.where(theirs == np.iinfo(own.dtype).min, own, theirs).astype(theirs.dtype)
    found = judge("", own, wide, theirs, native=own)
    return own.dtype == theirs.dtype and own.shape == theirs.shape and not found.peer_off


def _interpreter(module: Module, float64: bool):  # type: ignore[no-untyped-def]
    def run(*inputs: Array) -> object:
        return evaluate(module, list(inputs), float64=float64)

    return run


def _run(function, inputs: Sequence[Array]) -> list[Array] | None:  # type: ignore[no-untyped-def]
    """The results; None where the program refuses."""
    try:
        with np.errstate(all="ignore"):
            found = function(*inputs)
    except RunError:
        return None
    return [np.asarray(v) for v in (found if isinstance(found, tuple) else (found,))]


def _tried(run):  # type: ignore[no-untyped-def]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return run()
    except Exception:  # peers have errors of all kinds
        return None
