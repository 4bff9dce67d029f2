"""What `torch.compile(f, backend="legato")` does to a function: its graphs, their programs, and what runs in eager."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from legato.base.dataclass import dataclass
from legato.base.span import Span
from legato.frontend.torch.walk import Fault, is_pytorch, operator_name
from legato.torch.backend import backend
from legato.torch.fallback import operators_of
from legato.torch.graph import CompiledGraph

_SETTING = re.compile(r"torch\._dynamo\.config\.\w+\s*=\s*\w+")

__all__ = ["Break", "Explanation", "GraphReport", "Watch", "explain"]


@dataclass(frozen=True, slots=True)
class GraphReport:
    """One graph. `kind`: "inference", "forward" or "backward"; `programs`: how many there are in it; `operators`: how
    often each operator of PyTorch is in it; `native`: how many of these are in programs; `eager`: those that run in
    eager, with the reason and the user's line; `failed`: why parts run in eager as a whole; `recompiled`: Dynamo had a
    graph of the same code before."""

    kind: str
    programs: int
    operators: Mapping[str, int]
    native: int
    eager: tuple[Fault, ...]
    failed: tuple[str, ...]
    recompiled: bool

    @property
    def count(self) -> int:
        """How many operators there are."""
        return sum(self.operators.values())

    def __str__(self) -> str:
        again = ", compiled again" if self.recompiled else ""
        native = "" if self.native == self.count else f" ({self.native} in programs)"
        head = f"{_many(self.count, 'operator')}{native}, {_many(self.programs, 'program')}{again}"
        lines = [f"{self.kind}: {head}"]
        lines += [f"  {n:5} {name}" for name, n in Counter(self.operators).most_common()]
        lines += [f"  in eager: {f.operator} at {f.span}: {f.reason}" for f in self.eager]
        lines += [f"  in eager: a part, since {reason}" for reason in self.failed]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Break:
    """A place where Dynamo ends a graph, and goes on with another."""

    reason: str
    span: Span | None

    def __str__(self) -> str:
        return f"graph break: {self.reason}" + ("" if self.span is None else f" (at {self.span})")


@dataclass(frozen=True, slots=True)
class Explanation:
    """The graphs of a call, in the order in which they were compiled, the breaks between them, and why functions were
    `left` to eager."""

    graphs: tuple[GraphReport, ...]
    breaks: tuple[Break, ...]
    left: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether everything runs in one program, or one forward and one backward."""
        forward = [g for g in self.graphs if g.kind != "backward"]
        if self.breaks or self.left:
            return False
        return len(forward) == 1 and all(g.programs == 1 and not (g.eager or g.failed) for g in self.graphs)

    @property
    def recompilations(self) -> int:
        """How many graphs Dynamo made again for code that had one."""
        return sum(g.recompiled and g.kind != "backward" for g in self.graphs)

    def __str__(self) -> str:
        head = f"{_many(len(self.graphs), 'graph')}, {_many(len(self.breaks), 'break')}, " + _many(
            self.recompilations, "recompilation"
        )
        left = [f"in eager: a function, since {reason}" for reason in self.left]
        return "\n".join([head, *map(str, self.graphs), *map(str, self.breaks), *left])


class Watch:
    """Notes the graphs that `backend` compiles: `torch.compile(f, backend=watch.backend)`."""

    def __init__(self) -> None:
        self.backend = partial(backend, made=self._note)
        self._graphs: list[tuple[CompiledGraph, bool]] = []
        self._before = Counter(_unimplemented())

    def _note(self, graph: CompiledGraph) -> None:
        compilation = torch._guards.CompileContext.current_compile_id()
        self._graphs.append((graph, bool(compilation is not None and compilation.frame_compile_id)))

    def reports(self) -> tuple[GraphReport, ...]:
        """The graphs so far, in the order in which they were made; those that were not called yet are compiled."""
        for graph, _ in self._graphs:
            graph.prepare()
        return tuple(_report(graph, again) for graph, again in self._graphs)

    def left(self) -> dict[str, int]:
        """Why Dynamo has left functions to eager since this was made, and how many."""
        return dict(Counter(_unimplemented()) - self._before)


def _unimplemented() -> Mapping[str, int]:
    return torch._dynamo.utils.counters["unimplemented"]


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """What is compiled for a call of a function or a module, which is called: what it changes, it changes twice.

    What `torch.compile` has compiled before in this process is forgotten. Backward graphs are compiled, not run.
    """
    plain = getattr(function, "_torchdynamo_orig_callable", function)
    if isinstance(plain, torch._dynamo.eval_frame.OptimizedModule):
        plain = plain._orig_mod
    breaks = tuple(map(_break, torch._dynamo.explain(plain)(*args, **kwargs).break_reasons))
    watch = Watch()
    torch._dynamo.reset()
    try:
        torch.compile(plain, backend=watch.backend)(*args, **kwargs)
        return Explanation(watch.reports(), breaks, tuple(map(_first_line, watch.left())))
    finally:
        torch._dynamo.reset()


def _report(graph: CompiledGraph, recompiled: bool) -> GraphReport:
    notes, calls = graph.fallbacks, operators_of(graph.graph_module.graph)
    native = sum(node.name not in notes.faults for node in calls) - notes.lost
    return GraphReport(
        graph.kind, len(graph.programs), Counter(map(operator_name, calls)), native, tuple(notes.faults.values()),
        tuple(notes.parts), recompiled,
    )  # fmt: skip


def _break(found: Any) -> Break:
    frame = next((f for f in reversed(found.user_stack) if not is_pytorch(f.filename)), None)
    return Break(_first_line(found.reason), None if frame is None else Span(frame.filename, frame.lineno or 1, 1))


def _first_line(reason: str) -> str:
    """What a reason of Dynamo's begins with, and which of its settings would do otherwise."""
    setting = _SETTING.search(reason)
    return reason.strip().partition("\n")[0] + ("" if setting is None else f" (unless {setting[0]})")


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
