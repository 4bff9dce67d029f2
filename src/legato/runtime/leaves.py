"""The inputs and outputs of executables as flat lists of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from legato.runtime.executable import Executable

__all__ = ["flat", "in_order"]

Array = np.ndarray[Any, Any]


def flat(value: Any) -> Iterator[Array]:
    """The arrays in `value`, an array or nested tuples of them."""
    if isinstance(value, tuple):
        for part in value:
            yield from flat(part)
    else:
        yield np.asarray(value)


def in_order(exe: Executable, inputs: Mapping[str, Any]) -> list[Array]:
    """Named inputs in the executable's order."""
    return [np.asarray(inputs[tensor.name]) for tensor in exe.inputs]
