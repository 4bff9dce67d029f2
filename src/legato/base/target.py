"""Machines that code is compiled for: instruction set, registers, and nominal figures that schedules are derived from.

Nothing here is measured: schedules, and therefore results, are the same wherever a target is compiled for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from legato.base.config import config
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, PlatformError

if TYPE_CHECKING:
    from legato.base.dtype import DType  # imports NumPy, which a compile worker does without

__all__ = ["TARGETS", "Target", "best", "cpu_flags", "cpu_name", "host", "missing_features", "target"]


@dataclass(frozen=True, slots=True)
class Target:
    """An instruction set and the nominal machine behind it.

    cpu and features are LLVM's names; `l2_bytes` is the nominal size of a core's own cache, `gflops` its nominal peak
    in float32 operations per nanosecond, `memory_gbs` what it reads from memory in bytes per nanosecond.
    """

    name: str
    cpu: str
    features: tuple[str, ...]
    vector_bytes: int
    vector_registers: int
    fma: bool
    triple: str = "x86_64-unknown-linux-gnu"
    l2_bytes: int = 1 << 20
    gflops: float = 250.0
    memory_gbs: float = 22.0

    def lanes(self, dtype: DType) -> int:
        """Elements of `dtype` in one vector register."""
        return max(1, self.vector_bytes // dtype.bytes)

    def rate(self, dtype: DType) -> float:
        """Nominal operations per nanosecond in sums of products of `dtype`: twice those of float32 where there are dot
        products of bfloat16."""
        return self.gflops * (2 if dtype.name == "bfloat16" and self.has_bf16 else 1)

    @property
    def has_three_operands(self) -> bool:
        """Whether a result has a register of its own. Where it replaces an operand, what is used again is copied."""
        return "avx" in self.features

    @property
    def repeated_bytes(self) -> int:
        """The least that a load repeats all along a vector; what is smaller takes a shuffle besides."""
        return 4 if "avx" in self.features else 8

    @property
    def has_bf16(self) -> bool:
        """Whether there are instructions for dot products of bfloat16, and for rounding to it."""
        return "avx512bf16" in self.features

    def without(self, extra: str) -> Target:
        """This target, less one of the extras that its name has; itself if it has none such."""
        if f"+{extra}" not in self.name:
            return self
        features = tuple(f for f in self.features if f != extra)
        return replace(self, name=self.name.replace(f"+{extra}", ""), features=features)


_V2 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16")
_V3 = (*_V2, "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_EXTRAS = {"avx512vnni": "avx512_vnni", "avx512bf16": "avx512_bf16"}  # LLVM's name: /proc/cpuinfo's

TARGETS = {
    t.name: t
    for t in (
        Target("x86-64-v2", "x86-64-v2", _V2, 16, 16, fma=False, gflops=28.0),
        Target("x86-64-v3", "x86-64-v3", _V3, 32, 16, fma=True, gflops=112.0),
        Target("x86-64-v4", "x86-64-v4", _V4, 64, 32, fma=True),
    )
}
CPU_INFO = Path("/proc/cpuinfo")
# Features of the levels under the names that Linux gives them where those differ from LLVM's.
_LINUX = {"sse3": "pni", "sse4.1": "sse4_1", "sse4.2": "sse4_2", "bmi": "bmi1", "lzcnt": "abm"}


def target(name: str | Target) -> Target:
    """The target called `name`: a level of x86-64, a level with extras (`x86-64-v4+avx512vnni`), or "host"."""
    if isinstance(name, Target):
        return name
    if name == "host":
        return host()
    base, *extras = name.split("+")
    if base not in TARGETS or not set(extras) <= set(_EXTRAS):
        hint = "one of host, " + ", ".join(TARGETS) + "; x86-64-v4 may be followed by +" + ", +".join(_EXTRAS)
        raise CompileError(f"unknown target {name!r}", hint=hint)
    found = TARGETS[base]
    return replace(found, name=name, features=(*found.features, *sorted(extras))) if extras else found


@cache
def host() -> Target:
    """The best target that this machine runs, or the one that the configuration names; PlatformError on anything but
    Linux on x86-64-v2 or newer."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        import platform  # only for the message

        raise PlatformError(
            f"Legato compiles for Linux on x86-64 only so far; this is {platform.system()} on {platform.machine()}"
        )
    if config().target not in ("", "host"):
        return target(config().target)
    found = best(cpu_flags())
    if found is None:
        raise PlatformError("this CPU lacks SSE4.2 (x86-64-v2), which Legato needs")
    return found


def best(flags: Collection[str]) -> Target | None:
    """The best target for a CPU of which Linux reports these flags; None if there is none."""
    for level in reversed(TARGETS.values()):
        if all(_LINUX.get(f, f) in flags for f in level.features):
            extras = [llvm for llvm, linux in _EXTRAS.items() if linux in flags and level.vector_bytes == 64]
            return target("+".join([level.name, *sorted(extras)]))
    return None


@cache
def cpu_flags() -> frozenset[str]:
    """The instruction-set flags that Linux reports for this CPU; PlatformError where it reports nothing."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise PlatformError(f"{CPU_INFO} says what this CPU can do, and cannot be read: {error.strerror}") from None
    for line in lines:
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def cpu_name() -> str:
    """What Linux calls this machine's CPU; "unknown" where it does not say."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def missing_features(t: Target, flags: Collection[str] | None = None) -> tuple[str, ...]:
    """The features of `t`, by LLVM's names, that this machine's CPU lacks, or one of which Linux reports these flags:
    code for `t` runs there if there are none."""
    known = cpu_flags() if flags is None else flags
    return tuple(f for f in t.features if _EXTRAS.get(f, _LINUX.get(f, f)) not in known)
