"""What became of a random graph that computes shapes: compiled program, interpreter and ONNX Runtime side by side.

All three take the same calls and give the same. Where Legato refuses a call that ONNX Runtime takes, the size is one
that `legato check` and `Executable.inputs` name; the error is that of the door, before anything ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

import legato
from legato.base.errors import CompileError, InternalError, RunError, UnsupportedError
from legato.frontend.onnx import from_onnx
from legato.interp import evaluate
from legato.ir.module import Module
from legato.lower.survey import survey
from legato.runtime.executable import Executable
from tests.frontend.onnx.graph_draft import Array, Graph
from tests.frontend.onnx.graph_judge import agree, onnxruntime

__all__ = ["outcomes"]

Feeds = Mapping[str, Array]


def outcomes(graph: Graph) -> Counter[str]:
    """How many calls came to what: "right", "refused" by all, "refused by ONNX Runtime", "narrowed" as said; or what
    of the graph is unsupported.

    AssertionError, with the graph, where Legato is wrong, or narrows sizes without saying so.
    """
    try:
        module = from_onnx(graph.proto, shapes=graph.shapes)
        exe = legato.compile(module)
    except InternalError:
        raise
    except UnsupportedError as error:
        return Counter([f"unsupported: {'; '.join(error.details) or error.message}"])
    except CompileError as error:
        if any(onnxruntime(graph.proto, feeds) is not None for feeds in graph.feeds):
            raise AssertionError(f"{type(error).__name__}: {error}\n{graph}") from error
        return Counter(["refused"])
    return Counter(_of_call(graph, module, exe, feeds) for feeds in graph.feeds)


def _of_call(graph: Graph, module: Module, exe: Executable, feeds: Feeds) -> str:
    inputs = [feeds[p.name] for p in module["main"].params]
    about = f"{graph}\nextents {[a.shape for a in inputs]}, numbers {feeds.get('s')}"
    native = _run(lambda: evaluate(module, inputs))
    exact = _run(lambda: evaluate(module, inputs, float64=True))
    got, theirs = _run(lambda: exe(*inputs)), onnxruntime(graph.proto, feeds)
    if isinstance(native, RunError) or isinstance(got, RunError) or isinstance(exact, RunError):
        refusals = [v for v in (native, got, exact) if isinstance(v, RunError)]
        assert len(refusals) == 3, f"one of interpreter and compiled code refuses: {refusals[0]}\n{about}"
        if theirs is None:
            return "refused"
        assert survey(module).checks, f"ONNX Runtime takes it: {refusals[1]}\n{about}"
        return "narrowed"
    for ours, own in zip(got, native, strict=True):
        assert (ours.dtype, ours.shape) == (own.dtype, own.shape), f"compiled {ours}\ninterpreted {own}\n{about}"
        np.testing.assert_allclose(ours, own, 1e-5, 1e-5, err_msg=about)
    if theirs is None:
        return "refused by ONNX Runtime"
    for value, own, wide, other in zip(graph.proto.graph.output, native, exact, theirs, strict=True):
        assert agree(own, wide if wide.shape == own.shape else own, other), (
            f"{value.name}: interpreted {own}\nONNX Runtime {other}\n{about}"
        )
    return "right"


def _run(function: Callable[[], object]) -> list[Array] | RunError:
    """The results, or why the program refuses."""
    try:
        with np.errstate(all="ignore"):
            found = function()
    except RunError as error:
        return error
    return [np.asarray(v) for v in (found if isinstance(found, tuple) else (found,))]
