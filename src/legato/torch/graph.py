"""One graph of ATen's operators, compiled at its first call."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from threading import Lock
from typing import Any

import torch
from torch import fx

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.base.precision import precision as as_precision
from legato.base.target import target as as_target
from legato.driver import CompileOptions, compile_module
from legato.frontend.torch.graphs import import_graph
from legato.torch.fallback import Fallbacks, split
from legato.torch.program import GraphProgram

__all__ = ["CompiledGraph", "Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """What `torch.compile(…, options=…)` takes: `target`, `threads`, `precision`, `memory_limit` as `legato.compile`
    has them; `freeze`: in inference, weights become constants of the program, which is compiled again where they have
    changed; `fallback`: what Legato cannot compile runs in eager, else it is an error."""

    target: str = "host"
    threads: int | None = None
    precision: str | None = None
    memory_limit: int = 0
    freeze: bool = True
    fallback: bool = True

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """The options of a mapping; CompileError for one that there is not."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
                raise CompileError(f"no option {name!r} of the backend", hint=hint)
        return cls(**given)

    def compile_options(self) -> CompileOptions:
        """The same for `legato.compile`."""
        return CompileOptions(as_target(self.target), self.threads, memory_limit=self.memory_limit,
                              precision=as_precision(self.precision))  # fmt: skip


class CompiledGraph:
    """A functional graph as a function of its inputs; thread-safe.

    static: inputs that are the same tensors in every call (weights). They become constants, for as long as their
    memory and their versions stay.
    """

    def __init__(self, graph_module: fx.GraphModule, options: Options, static: Sequence[int] = ()) -> None:
        self.graph_module = graph_module
        self.options = options
        self.fallbacks = Fallbacks()
        self._static = tuple(static)
        self._frozen: tuple[tuple[torch.Tensor, int], ...] | None = None
        self._run: Any = None
        self._lock = Lock()

    def __call__(self, *inputs: Any) -> Any:
        """The outputs of the graph."""
        run = self._run
        if run is None or self._is_stale(inputs):
            run = self._build(inputs)
        return run(*inputs)

    def _is_stale(self, inputs: Sequence[Any]) -> bool:
        """Whether a weight that the program has as a constant is another, or has changed."""
        frozen = self._frozen
        if frozen is None:
            return False
        return any(
            inputs[n] is not tensor or tensor._version != version
            for n, (tensor, version) in zip(self._static, frozen, strict=True)
        )

    def _build(self, inputs: Sequence[Any]) -> Any:
        with self._lock:
            if self._run is not None:
                if not self._is_stale(inputs):
                    return self._run
                self._static, self._frozen = (), None  # weights that change are inputs from now on
            weights = [inputs[n] for n in self._static]
            if any(not isinstance(w, torch.Tensor) or w.is_inference() for w in weights):  # these have no versions
                self._static, weights = (), []
            constants = dict(zip(self._static, weights, strict=True))
            run = self._compiled(constants)
            self._frozen = tuple((w, w._version) for w in weights) if weights else None
            self._run = run
            return run

    def _compiled(self, constants: Mapping[int, torch.Tensor]) -> Any:
        if not self.options.fallback:
            return self._program(self.graph_module, constants)
        return split(self.graph_module, self._program, constants, self.fallbacks)

    def _program(self, graph_module: fx.GraphModule, constants: Mapping[int, torch.Tensor]) -> GraphProgram:
        mod, face = import_graph(graph_module, constants=constants, name="the graph")
        return GraphProgram(compile_module(mod, self.options.compile_options()).executable, face)
