"""Tensors and devices as programs for TVM have them: NumPy arrays that answer to `.numpy()` and `.device`, too."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from legato.base import dtype as dt
from legato.base.arrays import as_array, kind_of
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import CompileError, RunError
from legato.base.strings import without_zeros
from legato.runtime.values import Data, set_constructor, set_fields

__all__ = ["CPU", "Device", "NDArray", "Tensor", "array", "copied_into", "cpu", "device", "empty", "require_cpu",
           "require_target", "tensor", "wrapped"]  # fmt: skip

# Kinds of devices by the names that programs have for them, and their numbers (`DLDeviceType`).
_KINDS: Final = {"cpu": 1, "llvm": 1, "c": 1, "cuda": 2, "gpu": 2, "nvptx": 2, "opencl": 4, "cl": 4, "vulkan": 7,
                 "metal": 8, "vpi": 9, "rocm": 10, "hexagon": 16, "webgpu": 15}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Device:
    """A device by its number. The CPU is the one that there is; others can be named, and asked whether they exist."""

    device_type: int = 1
    index: int = 0

    @property
    def device_id(self) -> int:
        """Which of its kind."""
        return self.index

    @property
    def exist(self) -> bool:
        """Whether programs can run on it."""
        return self.device_type == 1

    def sync(self) -> None:
        """Nothing: calls end when their results are there."""

    def __str__(self) -> str:
        name = next((name for name, number in _KINDS.items() if number == self.device_type), str(self.device_type))
        return f"{name}({self.index})"


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
        if isinstance(target, Device):
            require_cpu(target)
            return self.copy()
        return copied_into(target, self)


Tensor = NDArray


def copied_into(target: Any, source: Any) -> Any:
    """`target`, an array, with the elements of `source`; RunError for what is no array, of which NumPy would fill a
    copy, and for one of another shape or that is read-only."""
    require_target(target)
    target.view(NDArray).copyfrom(source)
    return target


def require_target(target: object) -> None:
    """RunError for what nothing can be written into."""
    if not isinstance(target, np.ndarray):
        hint = "t.numpy() is that of a tensor t"
        raise RunError(f"nothing can be written into this {kind_of(target)}, wanted an array\n  hint: {hint}")
    if not target.flags.writeable:
        raise RunError("nothing can be written into this array: it is read-only")


def cpu(index: int = 0) -> Device:
    """The CPU."""
    return Device(1, index)


def device(name: Any = "cpu", index: int = 0) -> Device:
    """The device called `name` ("cpu", "llvm", "cuda", …) or of that number; CompileError for other names."""
    kind = str(name).split()[0] if str(name).strip() else ""
    number = name if isinstance(name, int) else _KINDS.get(kind)
    if number is None:
        raise CompileError(f"there is no kind of device {name!r}", hint=f"known are {', '.join(_KINDS)}")
    return Device(number, index)


def require_cpu(device: Any) -> None:
    """CompileError for a device that is not the CPU; None and "cpu" are, and objects whose `device_type` is 1."""
    kind = getattr(device, "device_type", device)
    if device is not None and kind not in ("cpu", 1, "1"):
        name = str(device) if isinstance(device, Device) else device
        raise CompileError(f"there is no device {name!r}", hint="programs run on the CPU")


def array(value: Any, device: Any = None) -> NDArray:
    """A copy of `value` as a tensor. CompileError for a device that is not the CPU."""
    require_cpu(device)
    data = np.array(value) if isinstance(value, list | tuple | int | float) else as_array(value, "a tensor").copy()
    return data.view(NDArray)


tensor = array


def empty(shape: Any, dtype: DType | str = "float32", device: Any = None) -> NDArray:
    """A tensor of zeros. CompileError for a device that is not the CPU."""
    require_cpu(device)
    return without_zeros(np.zeros(shape, dt.dtype(dtype).numpy)).view(NDArray)


def wrapped(value: Any) -> Any:
    """Arrays as tensors, also in tuples and values of data types; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(wrapped(v) for v in value)
    if isinstance(value, Data):
        return _wrapped_data(value)
    return value.view(NDArray) if isinstance(value, np.ndarray) else value


def _wrapped_data(root: Data) -> Data:
    """A value of a data type whose arrays are tensors. What it shares stays shared, and it may nest deeply."""
    made: dict[int, Data] = {}
    found: list[Data] = []
    todo: list[Any] = [root]
    while todo:
        value = todo.pop()
        if isinstance(value, tuple):
            todo += value
        elif isinstance(value, Data) and id(value) not in made:
            made[id(value)] = shell = object.__new__(Data)
            set_constructor(shell, value.constructor)
            found.append(value)
            todo += value.fields

    def field(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(field, value))
        return made[id(value)] if isinstance(value, Data) else wrapped(value)

    for value in found:
        set_fields(made[id(value)], tuple(map(field, value.fields)))
    return made[id(root)]
