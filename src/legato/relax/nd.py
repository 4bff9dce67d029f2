"""Tensors as programs of Relax's users have them: NumPy arrays that answer to `.numpy()` and `.device`, too."""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.base import dtype as dt
from legato.base.arrays import as_array
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import RunError

__all__ = ["CPU", "Device", "NDArray", "Tensor", "array", "cpu", "empty", "tensor", "wrapped"]


@dataclass(frozen=True, slots=True)
class Device:
    """A device; there is one, the CPU."""

    device_type: int = 1
    index: int = 0

    def sync(self) -> None:
        """Nothing: calls end when their results are there."""

    def __str__(self) -> str:
        return f"cpu({self.index})"


CPU = Device()


class NDArray(np.ndarray):
    """An array; `numpy()` is the same memory as NumPy's own class."""

    @property
    def device(self) -> Device:  # type: ignore[override]  # NumPy has a name there
        """Where it lies."""
        return CPU

    def numpy(self) -> np.ndarray[Any, Any]:
        """This memory as NumPy's own class."""
        return self.view(np.ndarray)

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Takes the elements of `source`, of the same shape."""
        given = as_array(source, "a tensor")
        if given.shape != self.shape:
            raise RunError(f"a tensor of shape {given.shape} into one of {self.shape}")
        self[...] = given
        return self

    def copyto(self, target: Any) -> Any:
        """Its elements to a tensor, or a copy of it on a device."""
        return self.copy() if isinstance(target, Device) else wrapped(target).copyfrom(self)


Tensor = NDArray


def cpu(index: int = 0) -> Device:
    """The CPU."""
    return Device(1, index)


def array(value: Any, device: Any = None) -> NDArray:
    """A copy of `value` as a tensor."""
    data = np.array(value) if isinstance(value, list | tuple | int | float) else as_array(value, "a tensor").copy()
    return data.view(NDArray)


tensor = array


def empty(shape: Any, dtype: DType | str = "float32", device: Any = None) -> NDArray:
    """A tensor of zeros."""
    return np.zeros(shape, dt.dtype(dtype).numpy).view(NDArray)


def wrapped(value: Any) -> Any:
    """Arrays as tensors, also in tuples; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(wrapped(v) for v in value)
    return value.view(NDArray) if isinstance(value, np.ndarray) else value
