"""What happened in one run, on which thread: for traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from legato.profile.report import Event
from legato.runtime.executable import Executable
from legato.runtime.kernels import KernelInfo
from legato.runtime.recorder import Launch, Run

__all__ = ["timeline"]


def timeline(exe: Executable, kernels: Sequence[KernelInfo], run: Run) -> tuple[Event, ...]:
    """The launches of `run` on lane 0, and each thread's shares of them on a lane of its own."""
    lanes: dict[int, int] = {}
    nodes = _nodes(kernels, run)
    found: list[Event] = []

    def add(name: str, kind: str, lane: int, start: int, end: int, details: Mapping[str, object]) -> None:
        found.append(Event(name, kind, lane, (start - run.start) / 1e9, (end - start) / 1e9, details))

    for launch in run.launches:
        if launch.kernel < 0:
            add(exe.program.host_ops[-1 - launch.kernel].op, "operator", 0, launch.start, launch.end, {})
            continue
        kernel = kernels[launch.kernel]
        details = {"node": next(nodes[launch.kernel], ""), **_details(kernel, launch)}
        add(kernel.name, "kernel", 0, launch.start, launch.end, {k: v for k, v in details.items() if v != ""})
        for share in launch.shares:
            lane = lanes.setdefault(share.thread, len(lanes) + 1)
            add(kernel.name, "share", lane, share.start, share.end, {"share": f"{share.tid} of {share.nt}"})
    return tuple(found)


def _details(kernel: KernelInfo, launch: Launch) -> dict[str, object]:
    dims = {name: launch.words[word] for name, word in kernel.dims.items()}
    work = kernel.work(dims)
    return {"operators": " ".join(kernel.operators), "flops": work.flops, "bytes": work.bytes, **dims}


def _nodes(kernels: Sequence[KernelInfo], run: Run) -> dict[int, Iterator[str]]:
    """The nodes of the model that the launches of each kernel compute, in order; none where that cannot be told."""
    calls = Counter(launch.kernel for launch in run.launches)
    return {n: iter(k.sites if len(k.sites) == calls[n] else ()) for n, k in enumerate(kernels)}
