"""What a comparison found, and the rule by which an output holds."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

import ml_dtypes
import numpy as np

from legato.base.dataclass import dataclass
from legato.base.dtype import dtype
from legato.base.precision import NEAR
from legato.base.strings import is_text

__all__ = ["Culprit", "OutputReport", "Report", "judge", "nearness"]

Array = np.ndarray[Any, Any]

SMALL: Final = 1e-5  # error that is always allowed, as a share of the output's range


@dataclass(frozen=True, slots=True)
class OutputReport:
    """One output against its exact value: the interpreter's in float64.

    error: the largest difference; inf where NaN or infinity stand at different places; for integers and bool, the
    number of elements that differ. range: from the smallest to the largest exact value, zero included. peer_error: of
    the peer, against the same; distance: from the peer. allowed: the error up to which the output holds. peer_off: it
    is the peer that is far from what the interpreter computes. at: of an output that does not hold, the element with
    the largest difference.
    """

    name: str
    type: str
    error: float
    range: float
    peer_error: float
    distance: float
    allowed: float
    holds: bool
    peer_off: bool = False
    at: str = ""

    @property
    def relative(self) -> float:
        """The error as a share of the range."""
        return self.error / self.range if self.range else self.error


@dataclass(frozen=True, slots=True)
class Culprit:
    """Where a wrong result comes from.

    stage: "import" (the module itself differs from ONNX Runtime), "engine" (of a code generator), a pass, with the
    options that it was given, or "code" (what is below the passes).
    node: the binding that is the first to be wrong, where one was found, of the program before the pass or of that
    behind all passes; what: its operators, and their places: nodes of the model by their names, or lines of a text. Of
    an engine they are the function that it runs and its generator. program: the smallest program found that shows it,
    and `inputs` for it; `text` is that program's.
    """

    stage: str
    node: str
    text: str
    program: Any  # a Module
    inputs: dict[str, Array]
    what: str = ""

    def __str__(self) -> str:
        named = f"{self.what} (%{self.node})" if self.what else f"%{self.node}"
        if self.stage == "import":
            return "the module differs from ONNX Runtime before any pass: the importer, or an operator's reference"
        if self.stage == "engine":
            return f"the engine of generator {self.what!r} for @{self.node} computes something else than the function"
        if self.stage != "code":
            return f"pass {self.stage} changes what {named if self.node else 'the program'} computes"
        if not self.node:
            return "no single node: what rounding leaves in each adds up to more than is allowed"
        return f"the code for {named} computes something else than its operators"


@dataclass(frozen=True, slots=True)
class Report:
    """Every output of one comparison; true where all hold.

    peer: "onnxruntime" or "interpreter" (in the program's own precision); note: why it is not the one that was
    expected. host_operators: how many operators have no native code and ran by their reference, on both sides.
    """

    outputs: tuple[OutputReport, ...]
    peer: str
    host_operators: int
    note: str = ""
    culprit: Culprit | None = None

    @property
    def holds(self) -> bool:
        """Whether every output holds."""
        return all(output.holds for output in self.outputs)

    @property
    def peer_off(self) -> str:
        """What to say of outputs for which the peer is the one that is off; empty where it is not."""
        off = [o for o in self.outputs if o.peer_off]
        named = ", ".join(f"{o.name} (by {o.peer_error:.3g})" for o in off)
        return f"ONNX Runtime is off, or the model is read as it does not read it: {named}" if off else ""

    def __bool__(self) -> bool:
        return self.holds

    def to_json(self) -> dict[str, Any]:
        """The report as JSON data; infinite errors are the text "inf"."""
        culprit = self.culprit
        return {
            "holds": self.holds,
            "peer": self.peer,
            "note": self.note,
            "peer_off": [o.name for o in self.outputs if o.peer_off],
            "host_operators": self.host_operators,
            "outputs": [{k: _plain(v) for k, v in asdict(output).items()} for output in self.outputs],
            "culprit": culprit and {k: getattr(culprit, k) for k in ("stage", "node", "what", "text")},
        }

    def __str__(self) -> str:
        return "\n".join([*map(_line, self.outputs), *(text for text in (self.note, self.peer_off) if text)])


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _line(output: OutputReport) -> str:
    verdict = "holds" if output.holds else "WRONG"
    error = f"error {output.error:.3g} of range {output.range:.3g}, {output.allowed:.3g} allowed"
    return f"{verdict}  {output.name}: {output.type}  {error}{output.at and '  at ' + output.at}"


def judge(
    name: str,
    got: Array,
    exact: Array,
    peer: Array,
    *,
    native: Array | None = None,
    near: float = NEAR,
    rounded: Array | None = None,
) -> OutputReport:
    """Compares `got` with its exact value, and with what the peer computes.

    native: what the interpreter computes in the program's own precision, where the peer is another implementation.

    Floats: the error is at most twice the peer's own, or 1e-5 of the range (for narrow floats, one unit in the last
    place of it); and where the peer is another implementation, the distance from it is within 1e-3 of the range. A
    `near` beyond 1e-3 stands for both shares, and twice the error of `rounded`, what the interpreter computes with
    factors of the same precision, is allowed as well. Other types: every element equals the exact one, or the peer's,
    which rounds before it compares or counts as we do. A peer that is far from `native`, too, is off: then `native` is
    the peer.
    """
    kind = dtype(got.dtype)
    type_ = f"{kind}[{', '.join(map(str, got.shape))}]"
    if native is not None and not nearness(peer, native, near)[1]:
        found = judge(name, got, exact, native, near=near, rounded=rounded)
        error = _error(peer, exact, got)
        return replace(found, peer_off=True, peer_error=error, distance=_error(got, peer, got))
    if any(got.shape != other.shape for other in (exact, peer)):
        return OutputReport(f"{name} (shape)", type_, np.inf, 0.0, 0.0, np.inf, 0.0, False)
    span = _span(exact)
    error, distance, other = _error(got, exact, got), _error(got, peer, got), _error(peer, exact, got)
    if not kind.is_float:
        holds = not np.any((got != exact) & (got != peer))
        return OutputReport(
            name, type_, error, span, other, distance, other, holds, at="" if holds else _at(got, exact)
        )
    eps = _epsilon(got)
    allowed = max(2 * other, max(SMALL if near <= NEAR else near, eps) * span)
    allowed = allowed if rounded is None else max(allowed, 2 * _distance(rounded, exact, got))
    apart = max(near, 4 * eps) * span if near <= NEAR else allowed
    holds = error <= allowed and (native is None or distance <= apart)
    return OutputReport(name, type_, error, span, other, distance, allowed, holds, at="" if holds else _at(got, exact))


def _at(got: Array, exact: Array) -> str:
    """The element that is furthest from its exact value, in words."""
    wanted = exact.astype(got.dtype) if not is_text(got) and _fits(exact, got) else exact
    with np.errstate(all="ignore"):
        if is_text(got):
            a, b = (got != wanted).astype(np.float64), np.zeros(got.shape)
        else:
            a, b = (x.astype(np.float64) for x in (got, wanted))
        gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    place = np.unravel_index(int(np.argmax(np.where(np.isnan(gap), np.inf, gap))), gap.shape) if gap.size else ()
    return f"[{', '.join(map(str, place))}]: got {got[place]}, wanted {wanted[place]}"


def _error(a: Array, b: Array, like: Array) -> float:
    """The largest difference of floats, or the number of elements that differ; inf for other shapes."""
    if a.shape != b.shape:
        return float("inf")
    return _distance(a, b, like) if dtype(like.dtype).is_float else float(np.count_nonzero(a != b))


def nearness(a: Array, b: Array, near: float = NEAR) -> tuple[float, bool]:
    """How far apart two implementations' outputs are, as a share of the range, and whether that is within `near`."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf"), False
    if not dtype(a.dtype).is_float:
        wrong = float(np.mean(a != b)) if a.size else 0.0
        return wrong, not wrong
    span, distance = max(_span(a), _span(b)), _distance(a, b, a)
    share = distance / span if span else distance
    return share, share <= max(near, 4 * _epsilon(a))


def _epsilon(array: Array) -> float:
    return float(ml_dtypes.finfo(array.dtype).eps)  # type: ignore[no-untyped-call]  # knows bfloat16 too


def _span(exact: Array) -> float:
    """From the smallest to the largest finite value, zero included; of strings, 0."""
    if is_text(exact):
        return 0.0
    wide = exact.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    return float(max(finite.max(), 0) - min(finite.min(), 0)) if finite.size else 0.0


def _distance(a: Array, b: Array, like: Array) -> float:
    """The largest difference of finite elements; inf where the others, in the dtype of `like`, are not the same."""
    with np.errstate(all="ignore"):
        a, b = (x.astype(like.dtype).astype(np.float64) if not _fits(x, like) else x.astype(np.float64) for x in (a, b))
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return float("inf")
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0))


def _fits(x: Array, like: Array) -> bool:
    """Whether every finite element of `x` is finite in the dtype of `like`."""
    wide = x.astype(np.float64)
    return bool(np.isfinite(wide.astype(like.dtype))[np.isfinite(wide)].all())
