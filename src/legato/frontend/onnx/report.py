"""What a model is and what of it Legato cannot compile: one value, for people and for `legato check`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.base.spelling import converters
from legato.ir.types import Type

if TYPE_CHECKING:
    from legato.frontend.onnx.census import Use

__all__ = ["NCHWC", "OPTIMISED", "Report", "Unsupported", "unsupported_error", "way_out", "why_absent"]

NCHWC = "com.microsoft.nchwc"  # the domain of operators that ONNX Runtime's last level of optimisation writes
OPTIMISED = (
    "ONNX Runtime has optimised this file for one kind of processor: compile the original, or one that it saved with "
    "ORT_ENABLE_EXTENDED at most"
)
_SHOWN = 100
_VALUES = ("input", "output", "initializer")  # what is refused and is no node

_TEXT = "an operator of ONNX Runtime that cuts words: cut them before the model"
_GRADIENT = "import the model without the node, and take the gradients of that by legato.grad"
_ABSENT = {
    "ATen": "it calls PyTorch: export the model with operators of ONNX (operator_export_type ONNX)",
    "GRUUnit": "an experiment of ONNX that nothing runs; GRU is what replaced it",
}

_SEARCH = "a search inside the file: compile the decoder that the node holds, and search around its calls"
_EXPERTS = "mixtures of experts are not imported: export the model with its experts as products of matrices"
_PACKED = "weights packed for ONNX Runtime's kernels: compile the file from before they were"
_FOREIGN = "a program for another compiler is inside the node: compile the original file"
_SPARSE = "attention to blocks of a cache is not imported: export the model with GroupQueryAttention"
_MICROSOFT = {
    **dict.fromkeys(("BeamSearch", "GreedySearch", "Sampling", "WhisperBeamSearch"), _SEARCH),
    **dict.fromkeys(("MoE", "MoEGroupRouter", "MoEPacked", "QMoE", "RouterGateUpProj"), _EXPERTS),
    **dict.fromkeys(("DequantizeBFP", "DequantizeWithOrder", "GatherBlockQuantized", "GatherPacked", "GemmFloat8",
                     "MatMulBlockQuantizedFp4Weight", "MatMulBlockQuantizedFp8Weight", "MatMulBnb4", "MatMulFpQ4",
                     "MatMulNBitsMlp", "MatMulNBitsQLoRA", "MatMulNBitsQkv", "MatMulPacked", "QOrderedAttention",
                     "QOrderedGelu", "QOrderedLayerNormalization", "QOrderedLongformerAttention", "QOrderedMatMul",
                     "QuantizeBFP", "QuantizeWithOrder"), _PACKED),
    **dict.fromkeys(("EPContext", "Snpe"), _FOREIGN),
    **dict.fromkeys(("DynamicSparseAttention", "LongformerAttention", "PagedAttention", "SparseAttention",
                     "SparsePagedAttention"), _SPARSE),
    "Tokenizer": _TEXT,
}  # fmt: skip


def why_absent(domain: str, operator: str) -> str:
    """Why an operator that has no converter has none."""
    if domain == "com.microsoft":
        return _MICROSOFT.get(operator, "no such operator in Legato")
    if (domain, operator) == ("ai.onnx.preview.training", "Gradient"):
        return _GRADIENT
    return _ABSENT.get(operator, "no such operator in Legato") if not domain else "no such operator in Legato"


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A node that cannot be imported. `opset`: the version of its domain's operator set, 0 if the model names none.

    An input, output or initializer stands for itself, with that word as the operator; the reason names it.
    """

    node: str
    operator: str
    domain: str
    opset: int
    reason: str

    @property
    def key(self) -> str:
        """The operator as `custom=` has it."""
        return f"{self.domain}::{self.operator}" if self.domain else self.operator

    def __str__(self) -> str:
        if self.operator in _VALUES:
            return self.reason
        return f"{self.node}: {self.domain or 'ai.onnx'}.{self.operator} of operator set {self.opset}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Report:
    """A model as `check` sees it.

    `inputs`, `outputs`: types by name (None where an output depends on something unsupported); `operators`: nodes per
    operator, those of other domains as "domain::Operator"; `parameters`: elements in all weights, `bytes` their size;
    `table`: the operators, those that are refused first.
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
    table: tuple[Use, ...]


def unsupported_error(name: str, found: Sequence[Unsupported]) -> UnsupportedError:
    """The error that lists everything that `found` holds."""
    details = [str(item) for item in found[:_SHOWN]]
    if len(found) > _SHOWN:
        details.append(f"… and {len(found) - _SHOWN} more")
    nodes = "one node" if len(found) == 1 else f"{len(found)} nodes"
    operators = ", ".join(dict.fromkeys(item.key for item in found))
    return UnsupportedError(f"{name}: {nodes} cannot be compiled ({operators})", details=details, hint=way_out(found))


def way_out(found: Sequence[Unsupported]) -> str | None:
    """What helps with any node that is refused: converters of those operators, or of the first few."""
    keys = list(dict.fromkeys(item.key for item in found if item.operator not in _VALUES and item.domain != NCHWC))
    if not keys:
        return None
    what = "a converter of your own for an operator" if len(keys) == 1 else "converters of your own for operators"
    return f"{what}: {converters(keys, 'from_onnx')} (docs/operators.md)"
