"""What `torch.compile(f, backend="legato")` does to a function: its graphs, their programs, and what runs in eager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from legato.base.dataclass import dataclass
from legato.base.span import Span
from legato.frontend.torch.walk import Fault, is_pytorch, operator_name
from legato.torch.backend import backend
from legato.torch.graph import CompiledGraph

__all__ = ["Break", "Explanation", "GraphReport", "explain"]


@dataclass(frozen=True, slots=True)
class GraphReport:
    """One graph. `kind`: "inference", "forward" or "backward"; `programs`: how many there are in it; `operators`: how
    often each operator of PyTorch is in it; `eager`: those that run in eager, with the reason and the user's line;
    `failed`: why parts run in eager as a whole; `recompiled`: Dynamo had a graph of the same code before."""

    kind: str
    programs: int
    operators: Mapping[str, int]
    eager: tuple[Fault, ...]
    failed: tuple[str, ...]
    recompiled: bool

    def __str__(self) -> str:
        count = sum(self.operators.values())
        again = ", compiled again" if self.recompiled else ""
        lines = [f"{self.kind}: {_many(count, 'operator')}, {_many(self.programs, 'program')}{again}"]
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
    """The graphs of a call, in the order in which they were compiled, and the breaks between them."""

    graphs: tuple[GraphReport, ...]
    breaks: tuple[Break, ...]

    @property
    def is_whole(self) -> bool:
        """Whether everything runs in one program, or one forward and one backward."""
        forward = [g for g in self.graphs if g.kind != "backward"]
        return not self.breaks and len(forward) == 1 and all(g.programs == 1 and not g.eager for g in self.graphs)

    @property
    def recompilations(self) -> int:
        """How many graphs Dynamo made again for code that had one."""
        return sum(g.recompiled and g.kind != "backward" for g in self.graphs)

    def __str__(self) -> str:
        head = f"{_many(len(self.graphs), 'graph')}, {_many(len(self.breaks), 'break')}, " + _many(
            self.recompilations, "recompilation"
        )
        return "\n".join([head, *map(str, self.graphs), *map(str, self.breaks)])


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """What is compiled for a call of a function or a module, which is called: what it changes, it changes twice.

    What `torch.compile` has compiled before in this process is forgotten. Backward graphs are compiled, not run.
    """
    plain = getattr(function, "_torchdynamo_orig_callable", function)
    if isinstance(plain, torch._dynamo.eval_frame.OptimizedModule):
        plain = plain._orig_mod
    breaks = tuple(map(_break, torch._dynamo.explain(plain)(*args, **kwargs).break_reasons))
    graphs: list[tuple[CompiledGraph, bool]] = []

    def note(graph: CompiledGraph) -> None:
        compilation = torch._guards.CompileContext.current_compile_id()
        graphs.append((graph, bool(compilation is not None and compilation.frame_compile_id)))

    torch._dynamo.reset()
    try:
        torch.compile(plain, backend=partial(backend, made=note))(*args, **kwargs)
        for graph, _ in graphs:
            graph.prepare()
    finally:
        torch._dynamo.reset()
    return Explanation(tuple(_report(graph, again) for graph, again in graphs), breaks)


def _report(graph: CompiledGraph, recompiled: bool) -> GraphReport:
    notes = graph.fallbacks
    calls = (n for n in graph.graph_module.graph.nodes if isinstance(n.target, torch._ops.OpOverload))
    operators = Counter(map(operator_name, calls))
    return GraphReport(
        graph.kind, len(graph.programs), operators, tuple(notes.faults.values()), tuple(notes.parts), recompiled
    )


def _break(found: Any) -> Break:
    frame = next((f for f in reversed(found.user_stack) if not is_pytorch(f.filename)), None)
    reason = found.reason.strip().partition("\n")[0]
    return Break(reason, None if frame is None else Span(frame.filename, frame.lineno or 1, 1))


def _many(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
