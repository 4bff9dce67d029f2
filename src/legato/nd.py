"""Tensors as scripts for TVM make them: `legato.nd.array(x)`, `.numpy()`, `.copyto(…)`, `.device`.

An NDArray is a NumPy array (`legato.runtime.ndarray`): wherever one is wanted, the other will do.
"""

from __future__ import annotations

from legato.runtime.ndarray import Device, NDArray, Tensor, array, cpu, device, empty, tensor

__all__ = ["Device", "NDArray", "Tensor", "array", "cpu", "device", "empty", "tensor"]
