"""What is known of a kernel beside its code: kept with the code in the kernel cache, so every fact is plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from legato.base.target import Target
from legato.tir.stmt import Func, LoopKind
from legato.tir.walk import loops

__all__ = ["KernelFacts", "kernel_facts"]


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """parallel: the kernel divides its work among the threads; work: what it has to do, as `lower.work` says it."""

    parallel: bool
    work: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The facts by name."""
        return {"parallel": self.parallel, "work": self.work}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> KernelFacts:
        """The facts that `to_json` gave."""
        return KernelFacts(bool(data["parallel"]), data["work"])


def kernel_facts(func: Func, target: Target) -> KernelFacts:
    """The facts of a kernel."""
    from legato.lower.work import kernel_work  # only for what was never compiled

    parallel = any(loop.kind is LoopKind.PARALLEL for loop in loops(func))
    return KernelFacts(parallel, kernel_work(func, target))
