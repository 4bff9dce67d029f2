"""Targets as scripts for TVM write them: `Target("llvm -mcpu=skylake-avx512")`, `{"cpu": "llvm"}`, a device's name."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Self

from legato.base.errors import CompileError
from legato.base.target import TARGETS, host
from legato.base.target import Target as Machine
from legato.base.target import target as named
from legato.runtime.ndarray import require_cpu

__all__ = ["Target", "TargetKind", "as_target", "create"]

# Processors by the names that LLVM has for them, and the level that each has.
_CPUS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("nehalem", "westmere", "sandybridge", "ivybridge"), "x86-64-v2"),
    **dict.fromkeys(("core-avx2", "haswell", "broadwell", "skylake", "znver1", "znver2", "znver3"), "x86-64-v3"),
    **dict.fromkeys(("skylake-avx512", "skx"), "x86-64-v4"),
    **dict.fromkeys(("cascadelake", "icelake-server"), "x86-64-v4+avx512vnni"),
    **dict.fromkeys(("cooperlake", "sapphirerapids", "znver4"), "x86-64-v4+avx512bf16+avx512vnni"),
    **{name: name for name in TARGETS},
}


_current: Final[ContextVar[tuple[Target, ...]]] = ContextVar("target", default=())


class TargetKind(NamedTuple):
    """What code generator a target is of."""

    name: str


class Target:
    """`Target("llvm -mcpu=core-avx2")`: what to compile for. Inside `with` it is the one that `build` takes.

    `host` has to be the same: a program runs on one device. CompileError as for `as_target`.
    """

    __slots__ = ("_text", "machine")

    def __init__(self, target: Any, host: Any = None) -> None:
        self.machine = as_target(target, host)
        self._text = target if isinstance(target, str) else str(target) if isinstance(target, Target) else ""

    @staticmethod
    def current(allow_none: bool = True) -> Target | None:
        """The innermost target of a `with`; None where there is none, or CompileError."""
        found = _current.get()
        if not found and not allow_none:
            raise CompileError("there is no current target", hint='with legato.target.Target("llvm"): …')
        return found[-1] if found else None

    @staticmethod
    def canon_target_and_host(target: Any, target_host: Any = None) -> tuple[Target, Target | None]:
        """Both as targets."""
        return Target(target, target_host), None if target_host is None else Target(target_host)

    @property
    def kind(self) -> TargetKind:
        """llvm, which all code is made by."""
        return TargetKind("llvm")

    @property
    def keys(self) -> tuple[str, ...]:
        """What schedules are for."""
        return ("cpu",)

    @property
    def mcpu(self) -> str:
        """The instruction set, as LLVM calls it."""
        return self.machine.cpu

    @property
    def attrs(self) -> dict[str, Any]:
        """Instruction set and features."""
        return {"mcpu": self.machine.cpu, "mattr": tuple(f"+{f}" for f in self.machine.features)}

    @property
    def host(self) -> Target:
        """This: host functions run where kernels do."""
        return self

    def export(self) -> dict[str, Any]:
        """As a dictionary, from which it can be made again."""
        return {"kind": "llvm", "mcpu": self.machine.name, "keys": ["cpu"]}

    def __enter__(self) -> Self:
        _current.set((*_current.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        _current.set(_current.get()[:-1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and other.machine == self.machine

    def __hash__(self) -> int:
        return hash(self.machine)

    def __str__(self) -> str:
        return self._text or f"llvm -keys=cpu -mcpu={self.machine.name}"

    def __repr__(self) -> str:
        return f'Target("{self}")'


create = Target


def as_target(target: Any, target_host: Any = None) -> Machine:
    """The machine that `target` says: a Target, a name of `legato.compile`'s, "llvm" with the options -mcpu and -keys,
    the same as a dictionary ({"kind": "llvm", "mcpu": …}), or one of these by device ({"cpu": "llvm"}); None: the
    current Target, or this machine.

    `target_host` has to be the same: a program runs on one device. CompileError for other devices and options, which
    would change the code and cannot.
    """
    found = _target(target)
    if target_host is not None and _target(target_host) != found:
        raise CompileError(f"target {found.name} with host {target_host!r}", hint="a program runs on one device")
    return found


def _target(target: Any) -> Machine:
    if target is None:
        current = Target.current()
        return host() if current is None else current.machine
    if isinstance(target, Target):
        return target.machine
    if isinstance(target, Mapping):
        return _target_of(dict(target))
    if isinstance(target, str) and target.split()[:1] == ["llvm"]:
        return _llvm(_options(target.split()[1:]))
    if not isinstance(target, str | Machine):
        raise CompileError(f"{target!r} is no target", hint='write "host", "llvm", or one of ' + ", ".join(TARGETS))
    return named(target)


def _target_of(target: dict[Any, Any]) -> Machine:
    """The target of a dictionary: options with their kind, or the target of the one device."""
    kind = target.pop("kind", None)
    if kind is not None:
        if kind != "llvm" and target:
            raise CompileError(f"target {kind} has no option {next(iter(target))}", hint="options are llvm's")
        return _llvm(target) if kind == "llvm" else named(str(kind))
    if len(target) != 1:
        raise CompileError(f"targets for {len(target)} devices", hint="a program runs on one device")
    [(device, found)] = target.items()
    require_cpu(device)
    return _target(found)


def _options(words: list[str]) -> dict[str, str]:
    if wrong := [word for word in words if not word.startswith("-")]:
        raise CompileError(f"a target's option begins with -, got {wrong[0]!r}", hint="llvm -mcpu=core-avx2")
    pairs = [word.lstrip("-").partition("=") for word in words]
    return {name: value for name, _, value in pairs}


def _llvm(options: Mapping[str, Any]) -> Machine:
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
