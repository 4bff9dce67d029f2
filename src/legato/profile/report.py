"""What a profile found, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from legato.base.dataclass import dataclass

if TYPE_CHECKING:
    from legato.profile.machine import Machine

__all__ = ["LEVELS", "OFF", "STEP", "Bound", "Cause", "Event", "KernelProfile", "Profile"]

LEVELS: Final = ("L1", "L2", "L3", "last run", "memory")  # "last run": in L3, if it is still there a run later
STEP: Final = "each step"  # what steps of a recurrence touch again: wherever so much of it lies
OFF: Final = 0.1  # of a run: by how much its parts may miss it before that is said


@dataclass(frozen=True, slots=True)
class Bound:
    """The least seconds that this machine needs: for the arithmetic, for moving the bytes. `by`: what takes longer."""

    seconds: float
    arithmetic: float
    moving: float
    by: str


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a kernel takes longer than its bound, and about how many of the seconds lost that explains."""

    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """All launches of a kernel in one run of the program, or of an operator that is run by its reference.

    seconds: of all launches together; flops, bytes: likewise; moved: bytes by the level where they lie at best; bound:
    None where the machine's peaks, or the work, are not known; causes: the greatest first, of kernels that are slow.
    """

    name: str
    operators: tuple[str, ...]
    sites: tuple[str, ...]
    calls: int
    seconds: float
    flops: int
    bytes: int
    moved: Mapping[str, int]
    threads: float
    bound: Bound | None
    causes: tuple[Cause, ...] = ()

    @property
    def lost(self) -> float:
        """Seconds beyond the bound."""
        return self.seconds - self.bound.seconds if self.bound is not None else 0.0

    @property
    def share(self) -> float | None:
        """The share of the roofline that is reached."""
        if self.bound is None or not self.seconds:
            return None
        return self.bound.seconds / self.seconds

    @property
    def made_of(self) -> str:
        """`nn.conv2d add @ /layer1/conv … 3 more`: the operators, and places of the model."""
        named = [site for site in self.sites if site]
        more = f" … {len(named) - 1} more" if len(named) > 1 else ""
        return " ".join(self.operators) + (f" @ {named[0]}{more}" if named else "")

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON data."""
        return {**asdict(self), "lost": self.lost if self.bound else None, "share": self.share}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened on a lane (0: the thread that runs the program) of one run; seconds from its start."""

    name: str
    kind: str  # "kernel", "operator" or "share"
    lane: int
    start: float
    seconds: float
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile: times in seconds, of one run; kernels sorted by the time they lose, or take where that is not known.

    statistic: what seconds are of all runs ("median" or "best"), each kernel's by themselves; overhead: seconds of a
    run that are in no kernel, which recording makes more by about a microsecond per launch; events: the run that was
    nearest to `seconds`.
    """

    target: str
    threads: int
    runs: int
    statistic: str
    seconds: float
    overhead: float
    kernels: tuple[KernelProfile, ...]
    machine: Machine | None
    note: str
    events: tuple[Event, ...]

    @property
    def share(self) -> float | None:
        """The share of the roofline that the kernels reach together, none of them more than all of it."""
        known = [(k.seconds, k.bound.seconds) for k in self.kernels if k.bound is not None]
        taken = sum(seconds for seconds, _ in known)
        return sum(map(min, known)) / taken if taken else None

    @property
    def total(self) -> float:
        """Seconds of all kernels and of what is outside them: each part by itself, of all runs."""
        return self.overhead + sum(k.seconds for k in self.kernels)

    @property
    def busy(self) -> str:
        """That the parts of a run, each of them measured over all runs, do not add up to a run; "" where they do."""
        if abs(self.total - self.seconds) <= OFF * self.seconds:
            return ""
        took = (
            f"a run takes {self.seconds * 1e6:.1f} µs, its parts {self.total * 1e6:.1f} µs ({self.statistic} of each)"
        )
        return f"{took}: others use this machine, or its speed changes"

    @property
    def on(self) -> str:
        """`AMD EPYC, x86-64-v4, 2 threads`: what it was measured on."""
        cpu = "" if self.machine is None else f"{self.machine.cpu}, "
        return f"{cpu}{self.target}, {self.threads} thread{'s' if self.threads > 1 else ''}"

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON data, without the events."""
        return {
            "target": self.target,
            "threads": self.threads,
            "runs": self.runs,
            "statistic": self.statistic,
            "seconds": self.seconds,
            "overhead": self.overhead,
            "total": self.total,
            "share": self.share,
            "kernels": [k.to_json() for k in self.kernels],
            "machine": None if self.machine is None else self.machine.to_json(),
            "note": self.note,
        }
