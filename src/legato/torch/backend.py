"""`torch.compile(module, backend="legato")`: PyTorch finds `backend` by the entry point `torch_dynamo_backends`.

AOTAutograd makes functional graphs of ATen's operators of what Dynamo captures: one for inference, or a forward and a
backward one. Each becomes a `CompiledGraph`, in whose programs Legato runs all that it can; the rest runs in eager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import fx

from legato.base.errors import CompileError
from legato.base.spelling import option
from legato.frontend.torch.decompositions import decompositions
from legato.torch.graph import CompiledGraph, Options
from legato.torch.recurrent import kept

__all__ = ["backend"]

_MODES = (None, "default")
Made = Callable[[CompiledGraph], None]


def backend(
    graph_module: fx.GraphModule,
    inputs: list[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    made: Made | None = None,
) -> Callable[..., Any]:
    """The compiled form of a graph that Dynamo captured. `options`: those of `Options`, by their names; `made` is
    told of each graph.

    CompileError for another mode and for an unknown option.
    """
    from torch._dynamo.backends.common import aot_autograd

    if mode not in _MODES:
        raise CompileError(f"{option('mode')}: {mode!r}", hint="Legato has one mode; options={'precision': 'fast'} act")
    chosen = Options.of(options or {})
    chosen.compile_options()  # refuses what it cannot be
    compiler = aot_autograd(
        fw_compiler=partial(_compiled, chosen, made, kind="forward"),
        bw_compiler=partial(_compiled, chosen, made, kind="backward"),
        inference_compiler=partial(_compiled, chosen, made, kind="inference"),
        decompositions=_decompositions(),
    )
    return compiler(kept(graph_module, inputs), inputs)


def _decompositions() -> dict[Any, Callable[..., Any]]:
    """Those of the frontend, without operators that draw random numbers: eager draws the same as uncompiled."""
    drawn = torch.Tag.nondeterministic_seeded
    return {op: f for op, f in decompositions().items() if drawn not in getattr(op, "tags", ())}


def _compiled(options: Options, made: Made | None, graph_module: fx.GraphModule, inputs: list[Any], kind: str) -> Any:
    """A graph as AOTAutograd wants it: a function of the list of its inputs, which it empties."""
    static = _static_inputs() if kind == "inference" and options.freeze else ()
    graph = CompiledGraph(graph_module, options, static, kind)
    if made is not None:
        made(graph)

    def run(given: list[Any]) -> Any:
        values = tuple(given)
        given.clear()
        return graph(*values)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _static_inputs() -> tuple[int, ...]:
    """Which inputs of the graph that is being traced are parameters, and buffers that the graph does not change."""
    context = torch._guards.TracingContext.try_get()
    facts = None if context is None else context.fw_metadata
    if facts is None:
        return ()
    known = facts.input_info
    return tuple(n for n in facts.static_input_indices if n < len(known) and not known[n].mutates_data)
