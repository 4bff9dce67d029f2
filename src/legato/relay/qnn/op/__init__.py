"""The operators of the quantised dialect."""

from __future__ import annotations

from typing import Any, Final

from legato.relay.op._functions import namespace as _namespace
from legato.relay.qnn.op import qnn
from legato.relay.qnn.op.qnn import requantize, requantize_config, simulated_dequantize, simulated_quantize

__all__ = ["qnn", "requantize", "requantize_config", "simulated_dequantize", "simulated_quantize"]

_OF_CALLS: Final = "a call says what it means; relay.qnn.transform.CanonicalizeOps makes integer arithmetic of it"
_NOT_HERE: Final = dict.fromkeys(("canonicalizations", "legalizations"), _OF_CALLS)
_operator, __dir__ = _namespace("qnn.", globals())


def __getattr__(name: str) -> Any:
    if name in _NOT_HERE:
        raise AttributeError(f"there is no relay.qnn.op.{name}: {_NOT_HERE[name]}")
    return _operator(name)
