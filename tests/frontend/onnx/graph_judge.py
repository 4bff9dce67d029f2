"""What became of a random ONNX graph: Legato's compiled program, its interpreter, ONNX Runtime and the reference of the
onnx package side by side.

Compiled code must compute what the interpreter does, for every value of the dims, and both refuse the same calls. The
interpreter must agree with one of the peers, wherever ONNX says what a result is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

import legato
from legato.base.errors import CompileError, InternalError, RunError
from legato.compare.report import judge
from legato.frontend.onnx import from_onnx
from legato.interp import evaluate
from legato.ir.module import Module
from tests.frontend.onnx.graph_draft import Array, Graph
from tests.frontend.onnx.peer import ort_outputs, reference_outputs
from tests.frontend.onnx.undefined import misread, undefined, unsteady

__all__ = ["agree", "onnxruntime", "outcome"]

Feeds = Mapping[str, Array]


def outcome(graph: Graph) -> str:
    """What came of a graph at the dims that it was drawn with: "right", "refused", or the peer that was off.

    AssertionError, with the graph, where Legato is wrong, and where it fails with no error of its own.
    """
    try:
        module = from_onnx(graph.proto, shapes=graph.shapes)
        exe = legato.compile(module)
    except InternalError:
        raise
    except CompileError:
        return "refused"
    found = [_at(graph, module, exe, feeds) for feeds in graph.feeds]
    return found[0]


def _at(graph: Graph, module: Module, exe: Callable[..., object], feeds: Feeds) -> str:
    """What came of it for one set of inputs."""
    inputs = [feeds[p.name] for p in module["main"].params]
    about = f"{graph}\nextents {[a.shape for a in inputs]}"
    native = _run(lambda *given: evaluate(module, list(given)), inputs)
    exact = _run(lambda *given: evaluate(module, list(given), float64=True), inputs)
    got = _run(exe, inputs)
    assert (native is None) == (got is None), f"one of interpreter and compiled code refuses: {about}"
    if native is None or got is None or exact is None:
        return "refused"
    names = [value.name for value in graph.proto.graph.output]
    loose = unsteady(graph.proto.graph, dict(zip(names, native, strict=True)))
    for name, ours, wide, own in zip(names, got, exact, native, strict=True):
        assert (ours.dtype, ours.shape) == (own.dtype, own.shape), about
        assert name in loose or judge("", ours, wide, own).holds, (
            f"compiled {ours}\ninterpreted {own}\nin float64 {wide}\n{about}"
        )
    return _against_peers(graph.proto, feeds, native, exact, loose, about)


def _against_peers(
    proto: onnx.ModelProto, feeds: Feeds, native: Sequence[Array], exact: Sequence[Array], loose: set[str], about: str
) -> str:
    names = [value.name for value in proto.graph.output]
    values = {**feeds, **dict(zip(names, native, strict=True))}
    free = loose | undefined(proto.graph, values)
    tested = [n for n, name in enumerate(names) if name not in free]
    wanted = onnxruntime(proto, feeds)
    if wanted is not None and all(agree(native[n], exact[n], wanted[n]) for n in tested):
        return "right"
    other = reference_outputs(proto, feeds)
    if wanted is None:
        apart = misread(proto, values)
        tested = [n for n in tested if names[n] not in apart]
        if other is None:
            return "refused by peers"
    for n in tested:
        theirs = [peer[n] for peer in (wanted, other) if peer is not None]
        right = any(agree(native[n], exact[n], p) for p in theirs)
        assert right, f"{names[n]}: interpreted {native[n]}\nONNX Runtime, reference {theirs}\n{about}"
    return "right by the reference alone" if wanted is None else "ONNX Runtime is off"


def onnxruntime(proto: onnx.ModelProto, feeds: Feeds) -> Sequence[Array] | None:
    """The results; None where ONNX Runtime refuses."""
    try:
        return [np.asarray(a) for a in ort_outputs(proto, feeds)]
    except Exception:  # of its many classes
        return None


def agree(own: Array, wide: Array, theirs: Array) -> bool:
    """Whether a peer has what the interpreter has, which would be `wide` in float64."""
    return (
        own.dtype == theirs.dtype
        and own.shape == theirs.shape
        and not judge("", own, wide, theirs, native=own).peer_off
    )


def _run(function: Callable[..., object], inputs: Sequence[Array]) -> list[Array] | None:
    """The results; None where the program refuses."""
    try:
        with np.errstate(all="ignore"):
            found = function(*inputs)
    except RunError:
        return None
    return [np.asarray(v) for v in (found if isinstance(found, tuple) else (found,))]
