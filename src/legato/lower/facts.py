"""What is known of a kernel beside its code: kept with the code in the kernel cache, so every fact is plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.base.dataclass import dataclass
from legato.base.target import Target
from legato.tir.launch import LaunchKind, launch_kind
from legato.tir.stmt import Func

__all__ = ["KernelFacts", "kernel_facts"]


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """launch: how it is launched; work: what it has to do, as `lower.work` says it; in_place: pairs (input, output) of
    arguments that may be the same memory."""

    launch: LaunchKind
    work: Mapping[str, Any]
    in_place: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The facts by name."""
        return {"launch": int(self.launch), "work": self.work, "in_place": self.in_place}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> KernelFacts:
        """The facts that `to_json` gave."""
        pairs = tuple((int(read), int(written)) for read, written in data["in_place"])
        return KernelFacts(LaunchKind(data["launch"]), data["work"], pairs)


def kernel_facts(func: Func, target: Target) -> KernelFacts:
    """The facts of a kernel."""
    from legato.lower.work import kernel_work  # only for what was never compiled
    from legato.tir.in_place import in_place

    return KernelFacts(launch_kind(func), kernel_work(func, target), in_place(func))
