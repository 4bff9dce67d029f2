"""What is known of a kernel beside its code: kept with the code in the kernel cache, so every fact is plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from legato.base.target import Target
from legato.tir.launch import LaunchKind, launch_kind
from legato.tir.stmt import Func

__all__ = ["KernelFacts", "kernel_facts"]


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """launch: how it is launched; work: what it has to do, as `lower.work` says it."""

    launch: LaunchKind
    work: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The facts by name."""
        return {"launch": int(self.launch), "work": self.work}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> KernelFacts:
        """The facts that `to_json` gave."""
        return KernelFacts(LaunchKind(data["launch"]), data["work"])


def kernel_facts(func: Func, target: Target) -> KernelFacts:
    """The facts of a kernel."""
    from legato.lower.work import kernel_work  # only for what was never compiled

    return KernelFacts(launch_kind(func), kernel_work(func, target))
