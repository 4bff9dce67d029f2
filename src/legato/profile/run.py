"""One profile: runs the program, measures the machine, puts both together."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from legato.base.dataclass import dataclass
from legato.base.errors import MissingError
from legato.base.target import target
from legato.profile.report import Bound, Cause, KernelProfile, Profile
from legato.profile.reuse import moved_bytes
from legato.profile.roofline import SLOW, Times, bound_of, causes_of
from legato.profile.timeline import timeline
from legato.runtime.executable import Executable
from legato.runtime.kernels import KernelInfo, Work
from legato.runtime.recorder import Launch, Recorder, Run

if TYPE_CHECKING:
    from legato.profile.machine import Machine, Meter

__all__ = ["profile"]

TURNS: Final = 10  # of running and of measuring the machine
MOST: Final = 2000  # runs
NO_COMPILER: Final = (
    "the peaks of this machine are measured with kernels made on the spot, which takes the compiler (llvmlite): "
    "without it there are times, but no shares of a peak"
)


def profile(
    exe: Executable,
    inputs: Mapping[str, object],
    *,
    seconds: float = 2.0,
    best: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Profile:
    """What each kernel of `exe` takes on `inputs` (by name), and how near that is to what this machine can do.

    seconds: how long to run (at least ten times), beside measuring the machine; best: take each launch's fastest run,
    and the best of each peak, not the medians: for machines that others use, too. RunError as `Executable.run` has it.
    """
    tell = progress or (lambda what: None)
    recorder = Recorder(exe)
    pick = min if best else statistics.median
    tell("running")
    runs, meter = _measured(exe, recorder, inputs, seconds)
    total = pick([run.end - run.start for run in runs]) / 1e9
    machine = meter.machine(best=best) if meter is not None else None
    kernels = _Kernels(exe, recorder.kernels, runs, pick, machine).profiles()
    return Profile(
        target=exe.target,
        threads=exe.threads,
        runs=len(runs),
        statistic="best" if best else "median",
        seconds=total,
        overhead=pick([run.end - run.start - sum(a.nanoseconds for a in run.launches) for run in runs]) / 1e9,
        kernels=tuple(sorted(kernels, key=lambda k: (-k.lost, -k.seconds))),
        machine=machine,
        note="" if meter is not None else NO_COMPILER,
        events=timeline(exe, recorder.kernels, min(runs, key=lambda run: abs(run.end - run.start - total * 1e9))),
    )


def _measured(
    exe: Executable, recorder: Recorder, inputs: Mapping[str, object], seconds: float
) -> tuple[list[Run], Meter | None]:
    """Runs, and the machine's peaks: in turns, so that both see the same clocks and neighbours."""
    runs = _runs(recorder, inputs, 0.0)
    period = min(run.end - run.start for run in runs) / 1e9
    meter = _meter(exe, recorder.kernels, runs[-1], period)
    runs = []
    for _ in range(TURNS):
        runs += _runs(recorder, inputs, seconds / TURNS)
        if meter is not None:
            meter.sample()
    order = [launch.kernel for launch in runs[0].launches]
    return [run for run in runs if [launch.kernel for launch in run.launches] == order], meter


def _runs(recorder: Recorder, inputs: Mapping[str, object], seconds: float) -> list[Run]:
    """Runs of so many seconds, at least one. Before them one more, which brings the program back into the caches."""
    _, *runs = recorder.runs(inputs, seconds, 2, 1 + MOST // TURNS)
    return runs


def _footprint(kernels: Sequence[KernelInfo], run: Run) -> int:
    """Bytes that a run touches."""
    found: dict[int, int] = {}
    for launch in run.launches:
        work = _work(kernels, launch)
        for word, _, read, written in () if work is None else work.buffers:
            address = launch.words[word]
            found[address] = max(found.get(address, 0), read, written)
    return sum(found.values())


def _step(kernels: Sequence[KernelInfo], run: Run) -> int:
    """Bytes that a step of a recurrence touches, of the one that touches most; 0 where there is none."""
    works = [_work(kernels, launch) for launch in run.launches]
    return max((work.count("step") for work in works if work is not None), default=0)


def _meter(exe: Executable, kernels: Sequence[KernelInfo], run: Run, period: float) -> Meter | None:
    """What measures the machine for a program whose runs are like `run`; None where there is no compiler."""
    try:
        from legato.profile.machine import Meter
    except MissingError:
        return None
    intrinsics = dict.fromkeys(name for k in kernels for name in k.calls)
    footprint, step = _footprint(kernels, run), _step(kernels, run)
    return Meter(target(exe.target), exe.threads, intrinsics, footprint, period, step)


@dataclass(frozen=True, slots=True)
class _Place:
    """One launch of every run: what is the same in all of them, and its times."""

    launch: Launch
    work: Work | None
    moved: Mapping[str, int]
    times: Times
    threads: float


class _Kernels:
    """Puts the launches of all runs together, by kernel."""

    def __init__(
        self,
        exe: Executable,
        kernels: Sequence[KernelInfo],
        runs: Sequence[Run],
        pick: Callable[[Sequence[float]], float],
        machine: Machine | None,
    ) -> None:
        self.exe, self.kernels, self.pick, self.machine = exe, kernels, pick, machine
        works = [_work(kernels, launch) for launch in runs[-1].launches]
        moved = self._moved(runs[-1].launches, works)
        every = zip(*(run.launches for run in runs), strict=True)
        self.places = [self._place(same, work, m) for same, work, m in zip(every, works, moved, strict=True)]

    def profiles(self) -> list[KernelProfile]:
        """One for each kernel, in the order of their first launches."""
        by_kernel: dict[int, list[_Place]] = {}
        for place in self.places:
            by_kernel.setdefault(place.launch.kernel, []).append(place)
        return [self._profile(number, places) for number, places in by_kernel.items()]

    def _moved(self, launches: Sequence[Launch], works: Sequence[Work | None]) -> list[Mapping[str, int]]:
        if self.machine is None:
            return [{}] * len(launches)
        machine = self.machine
        capacities = {n: c * (machine.cores if n in ("L1", "L2") else 1) for n, c in sorted(machine.caches.items())}
        nothing = Work({}, {}, ())
        return list(moved_bytes([(w or nothing, a.words) for w, a in zip(works, launches, strict=True)], capacities))

    def _place(self, launches: Sequence[Launch], work: Work | None, moved: Mapping[str, int]) -> _Place:
        pick, threads = self.pick, self.exe.threads
        seconds = pick([launch.nanoseconds for launch in launches]) / 1e9
        start = pick([_waiting(launch) for launch in launches]) / 1e9
        busy = pick([sum(s.end - s.start for s in launch.shares) for launch in launches]) / 1e9
        idle = max(0.0, seconds - start - busy / threads) if work is not None else 0.0
        return _Place(launches[0], work, moved, Times(seconds, start, idle), busy / seconds if seconds else 1.0)

    def _profile(self, number: int, places: Sequence[_Place]) -> KernelProfile:
        times = Times(*(sum(getattr(p.times, name) for p in places) for name in ("seconds", "start", "idle")))
        works = [p.work for p in places if p.work is not None]
        moved: dict[str, int] = {}
        for p in places:
            for level, size in p.moved.items():
                moved[level] = moved.get(level, 0) + size
        bound = self._bound(places)
        causes: tuple[Cause, ...] = ()
        if bound is not None and self.machine is not None and bound.seconds < SLOW * times.seconds:
            causes = causes_of(works, bound, moved, times, self.machine)
        info = self.kernels[number] if number >= 0 else None
        name = info.name if info is not None else f"by reference: {self.exe.program.host_ops[-1 - number].op}"
        return KernelProfile(
            name=name,
            operators=info.operators if info is not None else (),
            sites=info.sites if info is not None else (),
            calls=len(places),
            seconds=times.seconds,
            flops=sum(w.flops for w in works),
            bytes=sum(w.bytes for w in works),
            moved=moved,
            threads=sum(p.threads * p.times.seconds for p in places) / times.seconds if times.seconds else 1.0,
            bound=bound,
            causes=causes,
        )

    def _bound(self, places: Sequence[_Place]) -> Bound | None:
        """The bounds of all launches together."""
        if self.machine is None:
            return None
        found = [bound_of(p.work, p.moved, self.machine) for p in places if p.work is not None]
        if not found:
            return None
        by = max(found, key=lambda b: b.seconds).by
        return Bound(
            seconds=sum(b.seconds for b in found),
            arithmetic=sum(b.arithmetic for b in found),
            moving=sum(b.moving for b in found),
            by=by,
        )


def _work(kernels: Sequence[KernelInfo], launch: Launch) -> Work | None:
    if launch.kernel < 0:
        return None
    kernel = kernels[launch.kernel]
    return kernel.work({name: launch.words[word] for name, word in kernel.dims.items()})


def _waiting(launch: Launch) -> int:
    """Nanoseconds of a launch in which no thread works."""
    if not launch.shares:
        return 0
    return launch.nanoseconds - (max(s.end for s in launch.shares) - min(s.start for s in launch.shares))
