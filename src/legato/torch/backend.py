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

__all__ = ["backend"]

_MODES = (None, "default")


def backend(
    graph_module: fx.GraphModule,
    inputs: list[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """The compiled form of a graph that Dynamo captured. `options`: those of `Options`, by their names.

    CompileError for another mode and for an unknown option.
    """
    from torch._dynamo.backends.common import aot_autograd

    if mode not in _MODES:
        raise CompileError(f"{option('mode')}: {mode!r}", hint="Legato has one mode; options={'precision': 'fast'} act")
    chosen = Options.of(options or {})
    compiler = aot_autograd(
        fw_compiler=partial(_compiled, chosen, is_inference=False),
        bw_compiler=partial(_compiled, chosen, is_inference=False),
        inference_compiler=partial(_compiled, chosen, is_inference=True),
        decompositions=decompositions(),
    )
    return compiler(graph_module, inputs)


def _compiled(options: Options, graph_module: fx.GraphModule, inputs: list[Any], is_inference: bool) -> Any:
    """A graph as AOTAutograd wants it: a function of the list of its inputs, which it may empty."""
    from torch._functorch._aot_autograd.utils import make_boxed_func

    static = _static_inputs() if is_inference and options.freeze else ()
    return make_boxed_func(CompiledGraph(graph_module, options, static))


def _static_inputs() -> tuple[int, ...]:
    """Which inputs of the graph that is being traced are parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    facts = None if context is None else context.fw_metadata
    return () if facts is None else tuple(facts.static_input_indices)
