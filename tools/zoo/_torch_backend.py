"""An architecture through `torch.compile(module, backend="legato")`: its results, and what of it stays in eager."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch

from legato.torch.report import GraphReport, Watch
from tools.zoo._torch_plans import Plan, arguments
from tools.zoo._torch_rows import SHOWN, Backed, Verdict, attempt, beside_eager
from tools.zoo.build import plain

__all__ = ["backed"]


def backed(plan: Plan) -> Backed:
    """How far an architecture comes, with one compiled module for all of its sizes."""
    module = plain(plan.row)
    torch._dynamo.reset()
    breaks = torch._dynamo.utils.counters["graph_break"]
    breaks.clear()
    watch = Watch()
    net = torch.compile(module, backend=watch.backend)
    first = attempt("compile", lambda: _timed(plan, net))
    verdict = first if isinstance(first, Verdict) else attempt("run", lambda: beside_eager(plan, module, net, _marked))
    graphs = watch.reports()
    found = Backed(
        plan.row.name, verdict.stage, verdict.why, plan.sizes, verdict.errors,
        0.0 if isinstance(first, Verdict) else first, len(graphs), sum(g.recompiled for g in graphs),
        sum(g.programs for g in graphs), sum(g.count for g in graphs), sum(g.native for g in graphs), _eager(graphs),
        {why.partition("\n")[0][:SHOWN]: times for why, times in (*breaks.items(), *watch.left().items())},
    )  # fmt: skip
    torch._dynamo.reset()  # lets go of what was compiled
    return found


def _timed(plan: Plan, net: Any) -> float:
    """Seconds of the first call."""
    args, kwargs = _marked(plan, plan.sizes[0])
    start = time.perf_counter()
    with torch.no_grad():
        net(*args, **kwargs)
    return time.perf_counter() - start


def _marked(
    plan: Plan, sizes: Mapping[str, int]
) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:  # fmt: skip
    """The arguments, for the first sizes told which of their axes will have others."""
    args, kwargs = arguments(plan, sizes)
    if sizes == plan.sizes[0]:
        for name, tensor in zip(plan.row.inputs, (*args, *kwargs.values()), strict=True):
            for axis, symbol in enumerate(plan.axes.get(name, ())):
                if symbol:
                    torch._dynamo.maybe_mark_dynamic(tensor, axis)
    return args, kwargs


def _eager(graphs: tuple[GraphReport, ...]) -> dict[str, str]:
    """Why which operators, and parts, run in eager."""
    times = Counter((fault.operator, fault.reason) for graph in graphs for fault in graph.eager)
    found = {f"{count} {operator}": reason[:SHOWN] for (operator, reason), count in times.items()}
    failed = [reason for graph in graphs for reason in graph.failed]
    return found | {f"part {n}": reason[:SHOWN] for n, reason in enumerate(failed, 1)}
