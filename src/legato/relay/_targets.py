"""Targets as Relay's users write them: `"llvm -mcpu=skylake-avx512"`, `{"cpu": "llvm"}`, a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from legato.base.errors import CompileError
from legato.base.target import TARGETS, Target, host
from legato.base.target import target as named

__all__ = ["as_target", "require_cpu"]

_DEVICES: Final = ("cpu", 1, "1")  # the names and the number (`DLDeviceType`) of the one device that there is
# Processors by the names that LLVM has for them, and the level that each has.
_CPUS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("nehalem", "westmere", "sandybridge", "ivybridge"), "x86-64-v2"),
    **dict.fromkeys(("core-avx2", "haswell", "broadwell", "skylake", "znver1", "znver2", "znver3"), "x86-64-v3"),
    **dict.fromkeys(("skylake-avx512", "skx"), "x86-64-v4"),
    **dict.fromkeys(("cascadelake", "icelake-server"), "x86-64-v4+avx512vnni"),
    **dict.fromkeys(("cooperlake", "sapphirerapids", "znver4"), "x86-64-v4+avx512bf16+avx512vnni"),
    **{name: name for name in TARGETS},
}


def as_target(target: Any, target_host: Any = None) -> Target:
    """The target that `target` says: a Target, a name of `legato.compile`'s, "llvm" with the options -mcpu and -keys,
    the same as a dictionary ({"kind": "llvm", "mcpu": …}), or one of these by device ({"cpu": "llvm"}).

    `target_host` has to be the same: a program runs on one device. CompileError for other devices and options, which
    would change the code and cannot.
    """
    found = _target(target)
    if target_host is not None and _target(target_host) != found:
        raise CompileError(f"target {found.name} with host {target_host!r}", hint="a program runs on one device")
    return found


def require_cpu(device: Any) -> None:
    """CompileError for a device that is not the CPU; None and "cpu" are, and objects whose `device_type` is 1."""
    kind = getattr(device, "device_type", device)
    if device is not None and kind not in _DEVICES:
        raise CompileError(f"there is no device {device!r}", hint="programs run on the CPU")


def _target(target: Any) -> Target:
    if target is None:
        return host()
    if isinstance(target, Mapping):
        return _target_of(dict(target))
    if isinstance(target, str) and target.split()[:1] == ["llvm"]:
        return _llvm(_options(target.split()[1:]))
    if not isinstance(target, str | Target):
        raise CompileError(f"{target!r} is no target", hint='write "host", "llvm", or one of ' + ", ".join(TARGETS))
    return named(target)


def _target_of(target: dict[Any, Any]) -> Target:
    """The target of a dictionary: options with their kind, or the target of the one device."""
    kind = target.pop("kind", None)
    if kind is not None:
        return _llvm(target) if kind == "llvm" else named(str(kind))
    if len(target) != 1:
        raise CompileError(f"targets for {len(target)} devices", hint="a program runs on one device")
    [(device, found)] = target.items()
    require_cpu(device)
    return _target(found)


def _options(words: list[str]) -> dict[str, str]:
    pairs = [word.lstrip("-").partition("=") for word in words]
    return {name: value for name, _, value in pairs}


def _llvm(options: Mapping[str, Any]) -> Target:
    unknown = [name for name in options if name not in ("mcpu", "keys")]
    if unknown:
        hint = "of llvm's options there are -mcpu and -keys; -mcpu says which instructions there are"
        raise CompileError(f"target option -{unknown[0]} cannot be followed", hint=hint)
    if options.get("keys", "cpu") not in ("cpu", ["cpu"]):
        raise CompileError(f"target option -keys={options['keys']} cannot be followed", hint="the one key is cpu")
    cpu = options.get("mcpu", "native")
    if cpu == "native":
        return host()
    if cpu not in _CPUS:
        raise CompileError(f"target option -mcpu={cpu} cannot be followed", hint=f"known are {', '.join(_CPUS)}")
    return named(_CPUS[cpu])
