"""What a model is and what of it Legato cannot compile: one value, for people and for `legato check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.ir.types import Type

__all__ = ["NCHWC", "OPTIMISED", "Report", "Unsupported", "unsupported_error", "why_absent"]

NCHWC = "com.microsoft.nchwc"  # the domain of operators that ONNX Runtime's last level of optimisation writes
OPTIMISED = (
    "ONNX Runtime has optimised this file for one kind of processor: compile the original, or one that it saved with "
    "ORT_ENABLE_EXTENDED at most"
)
_SHOWN = 100

_TEXT = "strings are not supported"
_ABSENT = {
    "ATen": "it calls PyTorch: export the model with operators of ONNX (operator_export_type ONNX)",
    "GRUUnit": "an experiment of ONNX that nothing runs; GRU is what replaced it",
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer"), _TEXT),
}


def why_absent(domain: str, operator: str) -> str:
    """Why an operator that has no converter has none."""
    return _ABSENT.get(operator, "no such operator in Legato") if not domain else "no such operator in Legato"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A node that cannot be imported. `opset`: the version of its domain's operator set, 0 if the model names none.

    An input or an initializer stands for itself, with "input" or "initializer" as the operator; the reason names it.
    """

    node: str
    operator: str
    domain: str
    opset: int
    reason: str

    def __str__(self) -> str:
        if self.operator in ("input", "initializer"):
            return self.reason
        return f"{self.node}: {self.domain or 'ai.onnx'}.{self.operator} of operator set {self.opset}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Report:
    """A model as `check` sees it.

    `inputs`, `outputs`: types by name (None where an output depends on something unsupported); `operators`: nodes per
    operator, those of other domains as "domain::Operator"; `parameters`: elements in all weights, `bytes` their size.
    """

    name: str
    inputs: Mapping[str, Type]
    outputs: Mapping[str, Type | None]
    ir_version: int
    opsets: Mapping[str, int]
    producer: str
    nodes: int
    operators: Mapping[str, int]
    parameters: int
    bytes: int
    unsupported: tuple[Unsupported, ...]


def unsupported_error(name: str, found: Sequence[Unsupported]) -> UnsupportedError:
    """The error that lists everything that `found` holds."""
    details = [str(item) for item in found[:_SHOWN]]
    if len(found) > _SHOWN:
        details.append(f"… and {len(found) - _SHOWN} more")
    nodes = "one node" if len(found) == 1 else f"{len(found)} nodes"
    operators = ", ".join(dict.fromkeys(item.operator for item in found))
    return UnsupportedError(f"{name}: {nodes} cannot be compiled ({operators})", details=details)
