"""The least time that a kernel can take on a machine, and what explains the rest.

    bound = max(arithmetic, moving)
    arithmetic = vector bytes computed / peak + Σ intrinsics / their rate
    moving = the slowest of: bytes that lie in a level or beyond it / bandwidth of the level,
             bytes that steps of a recurrence touch again beyond the first cache / what reading as much again gives

Causes are told from facts of the kernel's code (`tir.cost`) and of the launches (which thread worked when), each with
the seconds that it explains; what nothing explains is called unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from legato.base.dataclass import dataclass
from legato.profile.report import LEVELS, STEP, Bound, Cause
from legato.runtime.kernels import Work

if TYPE_CHECKING:
    from legato.profile.machine import Machine  # which imports the compiler

__all__ = ["SLOW", "Times", "bound_of", "causes_of"]

SLOW = 0.7  # share of the roofline below which causes are told
LINE = 64  # bytes
WORTH = 0.1  # share of the time lost that makes a cause worth telling


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of a kernel's launches together: all, and of these those in which threads wait for each other.

    start: from the launch to the first share and from the last to the end; idle: a thread's share of the time that
    passes while others work.
    """

    seconds: float
    start: float
    idle: float


def bound_of(work: Work, moved: Mapping[str, int], machine: Machine) -> Bound:
    """The least seconds of one launch."""
    arithmetic = work.count("slots") / machine.results
    arithmetic += sum(n / machine.intrinsics[name] for name, n in work.calls.items() if name in machine.intrinsics)
    moving, level = 0.0, LEVELS[0]
    beyond = 0
    for name in reversed(LEVELS):
        beyond += moved.get(name, 0)
        seconds = beyond / machine.bandwidths.get(name, machine.bandwidths["L3"])
        if seconds > moving:
            moving, level = seconds, name
    again = work.count("stepped") / machine.bandwidths.get(STEP, machine.bandwidths["L2"])
    if again > moving:
        moving, level = again, STEP
    return Bound(max(arithmetic, moving), arithmetic, moving, "arithmetic" if arithmetic >= moving else level)


def causes_of(
    works: Sequence[Work], bound: Bound, moved: Mapping[str, int], times: Times, machine: Machine
) -> tuple[Cause, ...]:
    """Why all launches of a kernel together, whose works are `works`, take longer than their bound."""
    lost = times.seconds - bound.seconds
    found = [*_threads(works, times, machine), *_code(works, bound, machine)]
    found = [Cause(c.what, min(c.seconds, lost)) for c in found if c.seconds >= WORTH * lost]
    found.sort(key=lambda c: -c.seconds)
    left = lost - sum(c.seconds for c in found)
    if left >= lost / 2:
        found.append(_rest(bound, moved, times, left))
    return tuple(found)


def _total(works: Sequence[Work], name: str) -> int:
    return sum(w.count(name) for w in works)


def _threads(works: Sequence[Work], times: Times, machine: Machine) -> list[Cause]:
    found = [Cause("launch overhead", times.start)]
    if machine.threads == 1:
        return found
    extents = {w.count("parallel") for w in works}
    if extents == {0}:
        return [*found, Cause("runs on a single thread", times.idle)]
    least = min(extents - {0})
    uneven = least % machine.threads
    if least < 8 * machine.threads and uneven:
        what = f"threads get unequal shares ({least} iterations for {machine.threads} threads)"
    else:
        what = "threads wait for each other"
    return [*found, Cause(what, times.idle)]


def _code(works: Sequence[Work], bound: Bound, machine: Machine) -> list[Cause]:
    """What the code does beyond the work; it costs time only as far as it goes beyond the bound."""
    rate = machine.results
    spare = bound.seconds - bound.arithmetic
    waste = (
        ("masked", "tail lanes: guards turn off part of the vectors"),
        ("narrow", "vectors are narrower than a register"),
        ("scalar", "operations on single numbers, not vectors"),
    )
    found = [Cause(what, _total(works, name) / rate - spare) for name, what in waste]
    accesses = (_total(works, "loads") + _total(works, "stores")) * machine.vector_bytes / machine.bandwidths["L1"]
    gathered = _total(works, "gathered")
    if gathered * machine.vector_bytes / machine.bandwidths["L1"] > accesses / 2:  # lanes may be a cache line each
        beyond = max(accesses, gathered * LINE / machine.bandwidths["L2"]) - bound.seconds
        found.append(Cause("gathers: vectors are loaded lane by lane", beyond))
    else:
        found.append(Cause("few operations per load", accesses - bound.seconds))
    for level, name in (("L2", "past_l1"), ("L3", "past_l2")):
        again = _total(works, name)
        if again:
            what = f"operands come again from {level} ({again / 1e6:.1f} MB): larger than what lies before it"
            found.append(Cause(what, again / machine.bandwidths[level] - bound.seconds))
    found.append(Cause("divisions in subscripts", _total(works, "divisions") * 8 * 4 / rate - spare))
    return found


def _rest(bound: Bound, moved: Mapping[str, int], times: Times, left: float) -> Cause:
    """What is left when the threads and the code do not explain it."""
    busy = times.seconds - times.start - times.idle
    got = f"{sum(moved.values()) / busy / 1e9:.1f} GB/s" if busy > 0 else ""
    if bound.by != "arithmetic" and got:
        return Cause(f"reading and writing ({bound.by}) below its bandwidth: {got}", left)
    if got and 2 * bound.moving >= max(bound.arithmetic, left):
        return Cause(f"arithmetic that waits for its operands ({got})", left)
    return Cause("unknown", left)
