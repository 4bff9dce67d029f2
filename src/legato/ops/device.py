"""on_device and device_copy: where tensors lie (see `ir.devices`)."""

from __future__ import annotations

from legato.ir.devices import DEVICE_COPY, ON_DEVICE

__all__ = ["device_copy", "on_device"]

device_copy = DEVICE_COPY
on_device = ON_DEVICE
