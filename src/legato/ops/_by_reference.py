"""Operators that have no native code, run by their references."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.base.errors import UnsupportedError
from legato.base.spelling import several
from legato.ir.attrs_json import attrs_from_json
from legato.ir.op import Op
from legato.ops._own import operators
from legato.runtime.program import HostOpInfo

__all__ = ["ByReference"]


class ByReference:
    """Runs operators by their references, `extra` being those that the package does not have."""

    __slots__ = ("_extra", "_known")

    def __init__(self, extra: tuple[Op, ...] = ()) -> None:
        self._extra = extra
        self._known = operators(extra)

    def __reduce__(self) -> tuple[object, ...]:
        return ByReference, (self._extra,)

    def __call__(self, info: HostOpInfo, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        op = self._known.get(info.op)
        if op is None:
            raise UnsupportedError(f"the program needs operator {info.op!r}", hint=f"load it with {several('ops')}")
        attrs = attrs_from_json(op, info.attrs)
        with np.errstate(all="ignore"):
            value = op.reference(*inputs, *op.tail(attrs))
        return tuple(np.asarray(v) for v in value) if isinstance(value, tuple) else (np.asarray(value),)
