"""A compiled program as a function of tensors, as a graph's callers have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from legato.frontend.torch.graphs import GraphFace
from legato.runtime.executable import Executable
from legato.torch.tensors import as_array, as_tensor

__all__ = ["GraphProgram"]


class GraphProgram:
    """An executable called with the inputs of a graph; gives its outputs, each a tensor of the strides that PyTorch
    traced, or an integer."""

    def __init__(self, executable: Executable, face: GraphFace) -> None:
        self.executable = executable
        self.face = face

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """The outputs for the graph's inputs, in order."""
        given = [self._value(inputs[n]) for n in self.face.given]
        found = self.executable(*given)
        outputs = iter(found if isinstance(found, tuple) else (found,))
        return tuple(self._result(kind, value, outputs, inputs) for kind, value in self.face.results)

    @staticmethod
    def _value(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return as_array(value, "an input of the graph")
        return np.array(value, np.float64) if isinstance(value, float) else (int(value),)

    @staticmethod
    def _result(kind: str, value: Any, outputs: Any, inputs: Sequence[Any]) -> Any:
        if kind == "constant":
            return value
        if kind == "input":
            return inputs[value]
        array = np.asarray(next(outputs))
        if kind == "size":
            return int(array)
        if kind == "float":
            return float(array)
        tensor = as_tensor(array)
        return tensor if value is None else _laid_out(tensor, value)


def _laid_out(tensor: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    """A copy whose axes lie in memory in `order`, from the outermost on."""
    back = sorted(range(len(order)), key=order.__getitem__)
    return tensor.permute(order).contiguous().permute(back)
