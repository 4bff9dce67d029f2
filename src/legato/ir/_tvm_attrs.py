"""Attributes of operators in the JSON of Apache TVM, where every value is a text: a number, a name, or a node's number.

Which of these it was depended on the field's type in C++, which the JSON does not say. What can be both is decided by
the field: `_NUMBERS` are integers, `_NODES` refer to nodes, `axis` depends on the kind of record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from legato.base.errors import LegatoError
from legato.ir._json_checks import Bad, mapping, text
from legato.ir._relay_metadata import NodeValues
from legato.ir.op import Op

__all__ = ["read_attrs", "reference"]

_NUMBERS: Final = frozenset({
    "activation_bits", "bicubic_exclude", "bit_axis", "bits", "block_size", "coord_start", "cubic_exclude",
    "deformable_groups", "depth", "feature_stride", "groups", "hop_length", "id_index", "ignore_index", "k1", "k2",
    "lhs_axis", "lhs_begin", "max_displacement", "multiplier", "n_fft", "num_groups", "num_newaxis", "pack_axis",
    "rhs_axis", "rhs_begin", "rpn_min_size", "rpn_post_nms_top_n", "rpn_pre_nms_top_n", "sample_ratio", "score_index",
    "shift", "size", "stride1", "stride2", "tile_size", "top_k", "weight_bits", "win_length",
})  # fmt: skip
_NODES: Final = frozenset({
    "batch_axis", "batch_dims", "channels", "index_rank", "k", "lhs_end", "repeats", "rhs_end", "seq_axis", "stride",
    "units",
})  # fmt: skip
# The records whose axis is a node; in others it is a number.
_AXIS_NODES: Final = frozenset({
    "ArgReduceAttrs", "GatherAttrs", "L2NormalizeAttrs", "ReduceAttrs", "RepeatAttrs", "ReverseAttrs", "ScanopAttrs",
    "ScatterAddAttrs", "ScatterAttrs", "ScatterElementsAttrs", "SqueezeAttrs", "StackAttrs", "TakeAttrs",
    "VarianceAttrs",
})  # fmt: skip
# Fields that say once more what arguments say.
_REPEATED: Final[Mapping[str, frozenset[str]]] = {"arange": frozenset(("start", "stop", "step"))}
_NO_DTYPE: Final = frozenset(("", "void"))


def reference(raw: str) -> int | None:
    """The number of a node that a text may be; None for others."""
    return int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= 10 else None


def read_attrs(op: Op, name: str, node: Mapping[str, Any], values: NodeValues) -> dict[str, Any]:
    """The attributes of a call of `op`, written as `name`, from the node of its record. Bad for what cannot be read.

    Fields that are null are left out. So are those that the operator does not have and that say nothing: "", 0, null.
    """
    kind = text(node.get("type_key")).rpartition(".")[2]
    known = {f.name: str(f.type) for f in fields(op.attrs)} if op.attrs is not None else {}
    found: dict[str, Any] = {}
    for field, raw in mapping(node.get("attrs", {})).items():
        if field in _REPEATED.get(name, ()):
            continue
        try:
            value = _Field(kind, field, text(raw), values).read(known.get(field))
        except (ValueError, OverflowError, LegatoError):
            raise Bad(f"{kind}: {field} cannot be {raw!r:.60}") from None
        if value is not None:
            found[field] = value
    return found


class _Field:
    """One field of a record."""

    def __init__(self, kind: str, name: str, raw: str, values: NodeValues) -> None:
        self._kind, self._name, self._raw, self._values = kind, name, raw, values

    def read(self, annotation: str | None) -> Any:
        """The value as a field of that annotation (None: the operator has no such field) holds it; None where unset."""
        if annotation is None:
            return self._without_meaning()
        words = set(re.findall(r"\w+", annotation))
        if words & {"DType", "DtypeName"}:
            return None if self._raw in _NO_DTYPE else self._raw
        if words == {"bool"}:
            return self._raw == "1" if self._raw in ("0", "1") else self._node()
        if "str" in words:
            return self._string()
        if "float" in words and "tuple" not in words:
            return float(self._raw)
        if self._is_number(words):
            return int(self._raw)
        return self._node()

    def _without_meaning(self) -> None:
        number = reference(self._raw)
        value = self._raw if number is None else self._values.value(number)
        if value not in ("", None):
            raise Bad(f"{self._kind}: the operator has no attribute {self._name}, which is {self._raw!r:.60}")

    def _string(self) -> str | None:
        """A text, which may be that of a node."""
        number = reference(self._raw)
        if number is None:
            return self._raw
        value = self._values.value(number)
        if value is not None and not isinstance(value, str):
            raise Bad(f"{self._kind}: {self._name} is no text")
        return value

    def _is_number(self, words: set[str]) -> bool:
        """Whether the field holds an integer itself, not the number of a node. Bad where nothing says so."""
        if self._name == "axis":
            return self._kind not in _AXIS_NODES
        if "tuple" in words or self._name in _NODES:
            return False
        if self._name in _NUMBERS or reference(self._raw) is None:
            return True
        raise Bad(f"{self._kind}: whether {self._name} is a number or refers to a node is not known")

    def _node(self) -> Any:
        number = reference(self._raw)
        if number is None:
            raise Bad(f"{self._kind}: {self._name} is no node: {self._raw!r:.60}")
        return self._values.value(number)
