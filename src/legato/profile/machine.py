"""What this machine can do at most, measured: multiply-adds, reading from each cache and from memory, intrinsics.

The kernels are generated like those of a model, for the same instruction set, so the peaks are what that code generator
reaches when nothing is in its way. What a machine gives changes while it runs (clocks, neighbours), so they can be
sampled again and again, between other things.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.target import Target, cpu_name
from legato.bench.fork_join import fork_join_seconds
from legato.profile.loops import Rate, aligned, call_rate, multiply_add_rate, read_rate, return_rate, step_rate
from legato.profile.report import LEVELS, STEP

__all__ = ["Machine", "Meter", "measure_machine"]

DEFAULT_CACHES: Final = {"L1": 32 << 10, "L2": 1 << 20, "L3": 16 << 20}  # where the system does not say
SAMPLES: Final = 5
READ_BYTES: Final = {"L1": 512 << 20, "L2": 256 << 20, "L3": 128 << 20, "memory": 0}  # by each share; 0: all, once


@dataclass(frozen=True, slots=True)
class Machine:
    """Peaks of a number of threads together.

    flops: operations on float32 per second, a multiply-add being two; results: bytes of results of vector arithmetic
    per second; bandwidths: bytes per second read, by level; caches: bytes of each level (L1 and L2 of one core);
    intrinsics: float32 values computed per second; fork_join: seconds that a launch on all threads takes beyond its
    work.

    Of "last run", if it is there, is what a program of some size finds in L3 that it left there a run ago: on machines
    that share L3 with others, part of it has come to lie in memory. "each step", if it is there, is for what steps of a
    recurrence read again, to and fro: part of it may lie in one cache, and part in the next.

    What every core has of its own (arithmetic, L1, L2) is measured on one and multiplied by the cores in use; L3 and
    memory are measured on all threads at once.
    """

    cpu: str
    target: str
    threads: int
    cores: int
    vector_bytes: int
    flops: float
    results: float
    bandwidths: Mapping[str, float]
    caches: Mapping[str, int]
    intrinsics: Mapping[str, float]
    fork_join: float

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON data."""
        return asdict(self)


class Meter:
    """Samples the peaks of this machine with code for `target` on `threads` threads.

    footprint: bytes that a program touches in a run, which takes `period` seconds; of these the bandwidth "last run"
    is measured, unless they do not fit into L3, or into L2. step: bytes that all threads together touch in each step of
    a recurrence; of these "each step" is.
    """

    def __init__(
        self,
        target: Target,
        threads: int,
        intrinsics: Iterable[str] = (),
        footprint: int = 0,
        period: float = 0.0,
        step: int = 0,
    ) -> None:
        self.target, self.threads = target, threads
        self.caches, self.cores = _caches(), min(threads, _cores())
        self.intrinsics = tuple(intrinsics)
        self.rates = {"multiply-adds": multiply_add_rate(target), **self._reading(footprint, period, step // threads)}
        self.rates |= {name: call_rate(target, name) for name in self.intrinsics}
        self.samples: dict[str, list[float]] = {name: [] for name in self.rates}

    def _reading(self, footprint: int, period: float, step: int) -> dict[str, Rate]:
        """Bandwidths, by level; step: of a thread."""
        target, threads = self.target, self.threads
        one, two, three = (self.caches[level] for level in ("L1", "L2", "L3"))
        own = {"L1": one // 2, "L2": (one + two) // 2}
        shared = {"L3": two + min(2 * two, three // (4 * threads)), "memory": max(4 * three // threads, 2 * two)}
        values = aligned(threads, max(*shared.values(), step) // 4)
        found = {level: read_rate(target, values[:1], size, READ_BYTES[level]) for level, size in own.items()}
        for level, size in shared.items():
            found[level] = read_rate(target, values, size, READ_BYTES[level], ahead=True)
        if two * self.cores < footprint <= three:
            found["last run"] = return_rate(target, values, footprint // threads, period)
        if step:
            found[STEP] = step_rate(target, values, step, READ_BYTES["L2"])
        return found

    def sample(self) -> None:
        """Measures everything once; takes some tenths of a second."""
        for name, rate in self.rates.items():
            self.samples[name].append(rate.sample())

    def machine(self, *, best: bool = False) -> Machine:
        """The medians of all samples, or the best ones."""
        pick = max if best else statistics.median
        found = {name: pick(samples) for name, samples in self.samples.items()}
        rate = self.cores * found["multiply-adds"]
        target = self.target
        return Machine(
            cpu=cpu_name(),
            target=target.name,
            threads=self.threads,
            cores=self.cores,
            vector_bytes=target.vector_bytes,
            flops=2 * rate,
            results=dt.float32.bytes * rate * (1 if target.fma else 2),
            bandwidths=self._bandwidths(found),
            caches=self.caches,
            intrinsics={name: self.cores * found[name] for name in self.intrinsics},
            fork_join=fork_join_seconds(target, self.threads) if self.threads > 1 else 0.0,
        )

    def _bandwidths(self, found: Mapping[str, float]) -> dict[str, float]:
        """By level, the fastest first: less is never slower to read again than more."""
        known = {
            level: found[level] * (self.cores if level in ("L1", "L2") else 1) for level in LEVELS if level in found
        }
        for beyond, level in pairwise(reversed(known)):
            known[level] = max(known[level], known[beyond])
        if STEP in found:
            known[STEP] = found[STEP]
        return known


def measure_machine(target: Target, threads: int, intrinsics: Iterable[str] = ()) -> Machine:
    """The peaks of this machine with code for `target` on `threads` threads: the best of a few samples, since on a busy
    machine it takes some until all threads have a core each."""
    meter = Meter(target, threads, intrinsics)
    for _ in range(SAMPLES):
        meter.sample()
    return meter.machine(best=True)


def _cores() -> int:
    """How many cores this process may use: CPUs that share one count once."""
    found = set()
    for cpu in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            found.add(siblings.read_text(encoding="utf-8"))
        except OSError:
            found.add(str(cpu))
    return len(found)


def _caches() -> dict[str, int]:
    """Bytes of the data caches by level, as Linux tells."""
    found = dict(DEFAULT_CACHES)
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = (
                (index / name).read_text(encoding="utf-8").strip() for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and size.endswith("K") and size[:-1].isdigit():
            found[f"L{level}"] = int(size[:-1]) << 10
    return found
