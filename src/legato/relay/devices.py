"""Devices as Relay's users write them, and the pass that plans them: VirtualDevice, CompilationConfig, PlanDevices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.device import HOST, Device, as_device
from legato.relay._passes import Pass
from legato.relay._steps import of_steps
from legato.transform.plan_devices import PlanDevices as Plan

__all__ = ["CompilationConfig", "PlanDevices", "VirtualDevice", "make_compilation_config"]


def VirtualDevice(device: Any = None, target: object = None, memory_scope: str = "") -> Device:  # TVM's name
    """A device, or a memory of it: `VirtualDevice("cuda:1", memory_scope="global.texture")`; None is the host.

    Without `device`, `target` says which it is.
    """
    if device is None:
        device = HOST if target is None else _device(target)
    return as_device(device, memory_scope)


@dataclass(frozen=True, slots=True)
class CompilationConfig:
    """Where what no statement decides lies: conditions and extents, and the rest."""

    host_virtual_device: Device = HOST
    default_primary_virtual_device: Device = HOST


def make_compilation_config(ctxt: Any = None, target: Any = None, target_host: Any = None) -> CompilationConfig:
    """The configuration for one target, whose device is the primary one; of several, that is the CPU, unless `ctxt`, a
    pass context, has a kind of devices by DLPack's number as "relay.fallback_device_type".

    `target` is one as for `relay.build`, or a list of these or a mapping from devices: "llvm", "cuda -arch=sm_80",
    {"cpu": "llvm", "cuda": "cuda"}. The host is that of `target_host`.
    """
    host = HOST if target_host is None else _device(target_host)
    fallback = (getattr(ctxt, "config", None) or {}).get("relay.fallback_device_type")
    if isinstance(target, Mapping) and "kind" not in target:
        target = list(target)
    targets = target if isinstance(target, list | tuple) else [] if target is None else [target]
    if fallback is not None:
        return CompilationConfig(host, as_device(fallback))
    return CompilationConfig(host, _device(targets[0]) if len(targets) == 1 else host)


def _device(target: Any) -> Device:
    kind = target["kind"] if isinstance(target, Mapping) else target
    name = str(getattr(kind, "kind", kind)).split(maxsplit=1)[:1]
    return as_device(target if isinstance(target, int) else (name or [""])[0])


def PlanDevices(config: Any = None) -> Pass:  # TVM's name
    """Every tensor gets a device, and copies of those are made that are wanted on another (docs/devices.md).

    `config` is a CompilationConfig, or the primary device: None for the CPU.
    """
    if config is None or not hasattr(config, "default_primary_virtual_device"):
        config = CompilationConfig(HOST, HOST if config is None else as_device(config))
    step = Plan(str(as_device(config.default_primary_virtual_device)), str(as_device(config.host_virtual_device)))
    return of_steps("PlanDevices", 0, (step,))
