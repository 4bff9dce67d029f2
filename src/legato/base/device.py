"""Devices by name: where tensors lie, and where what reads them is computed.

    Device("cuda", 1)                       cuda:1
    Device("cuda", 1, "global.texture")     cuda:1/global.texture       a memory of it, by scope

A device is a plain value. Every one of them is carried out on the host today, in memory of its own; a real one comes
behind the same name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError

__all__ = ["HOST", "Device", "as_device", "number"]

_TEXT: Final = re.compile(r"([a-z][a-z0-9_]*)(?::(\d{1,9}))?(?:/([\w.-]+))?", re.ASCII)
# DLPack's numbers of kinds of devices, and other names that programs use for them.
_NUMBERS: Final[Mapping[int, str]] = {
    1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm", 11: "rocm_host",
    12: "ext_dev", 13: "cuda_managed", 14: "oneapi", 15: "webgpu", 16: "hexagon",
}  # fmt: skip
_ALIASES: Final[Mapping[str, str]] = {"llvm": "cpu", "gpu": "cuda", "nvptx": "cuda", "cl": "opencl", "mtl": "metal"}


@dataclass(frozen=True, slots=True)
class Device:
    """Device number `index` of a `kind`; `memory_scope`: which memory of it, where it has several."""

    kind: str
    index: int = 0
    memory_scope: str = ""

    def __post_init__(self) -> None:
        if _TEXT.fullmatch(str(self)) is None:
            hint = 'write it as "cuda", "cuda:1" or "cuda:1/global.texture"'
            raise CompileError(f"{str(self)!r} is no device", hint=hint)

    @property
    def name(self) -> str:
        """A word for it, as in names of buffers."""
        return re.sub(r"\W", "_", str(self))

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}" + (f"/{self.memory_scope}" if self.memory_scope else "")


HOST: Final = Device("cpu")


def as_device(device: Any, memory_scope: str = "") -> Device:
    """The device that `device` says: a Device, its text ("cuda", "cuda:1"), DLPack's number of a kind, or an object
    with DLPack's number as `device_type` and an index as `device_id` or `index`. CompileError for anything else."""
    if isinstance(device, Device):
        return Device(device.kind, device.index, memory_scope or device.memory_scope)
    if isinstance(device, str):
        found = _TEXT.fullmatch(device)
        if found is not None:
            kind, index, scope = found.groups()
            return Device(_ALIASES.get(kind, kind), int(index or 0), memory_scope or scope or "")
    number = getattr(device, "device_type", device)
    if type(number) is int and number in _NUMBERS:
        index = getattr(device, "device_id", getattr(device, "index", 0))
        return Device(_NUMBERS[number], int(index) if isinstance(index, int) else 0, memory_scope)
    raise CompileError(f"{device!r} is no device", hint='write it as "cpu", "cuda:1" or "cuda:1/global.texture"')


def number(device: Device) -> int:
    """DLPack's number of the kind of a device; 0 for one that it does not have."""
    return next((n for n, kind in _NUMBERS.items() if kind == device.kind), 0)
