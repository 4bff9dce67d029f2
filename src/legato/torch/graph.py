"""One graph of ATen's operators, compiled at its first call."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from threading import Lock
from typing import Any

import torch
from torch import fx

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, UnsupportedError
from legato.base.precision import precision as as_precision
from legato.base.target import target as as_target
from legato.driver import CompileOptions, compile_module
from legato.frontend.torch.graphs import import_graph
from legato.torch.fallback import Fallbacks, split
from legato.torch.foreign import foreign_nodes
from legato.torch.program import GraphProgram
from legato.torch.weights import FrozenWeight, can_freeze, is_stale

__all__ = ["CompiledGraph", "Options"]

_REBUILDS = 3  # how often a graph is compiled again because weights have changed


@dataclass(frozen=True, slots=True)
class Options:
    """What `torch.compile(…, options=…)` takes: `target`, `threads`, `precision`, `memory_limit` as `legato.compile`
    has them; `freeze`: in inference, weights become constants of the program, which is compiled again where they have
    changed (of writes through `.data` and NumPy, which PyTorch does not count, only some are seen: those need
    freeze=False); `fallback`: what Legato cannot compile runs in eager, else it is an error."""

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


@dataclass(frozen=True, slots=True)
class _State:
    """What calls run, and the weights that it has as constants; replaced as a whole."""

    run: Callable[..., Any]
    frozen: tuple[FrozenWeight, ...] = ()


class CompiledGraph:
    """A functional graph as a function of its inputs; thread-safe. It is compiled at its first call.

    static: inputs that are the same tensors in every call (weights). They become constants; those that have changed
    are inputs from then on. `kind`: "inference", "forward" or "backward"; `programs`: what runs in it; `fallbacks`:
    what does not.
    """

    def __init__(
        self, graph_module: fx.GraphModule, options: Options, static: Sequence[int] = (), kind: str = "inference"
    ) -> None:
        self.graph_module = graph_module
        self.options = options
        self.kind = kind
        self.fallbacks = Fallbacks()
        self.programs: list[GraphProgram] = []
        self._static = tuple(static)
        self._rebuilt = 0
        self._state: _State | None = None
        self._lock = Lock()

    def __call__(self, *inputs: Any) -> Any:
        """The outputs of the graph."""
        state = self._state
        if state is None or (state.frozen and is_stale(state.frozen, inputs)):
            state = self._built(inputs)
        return state.run(*inputs)

    def prepare(self) -> None:
        """Compiles the graph without a call, its weights as inputs, unless it is compiled."""
        with self._lock:
            if self._state is None:
                self._static = ()
                self._state = _State(self._compiled({}))

    def _built(self, inputs: Sequence[Any]) -> _State:
        with self._lock:
            state = self._state
            if state is not None:
                if not is_stale(state.frozen, inputs):
                    return state
                changed = {weight.position for weight in state.frozen if not weight.is_same(inputs[weight.position])}
                self._rebuilt += 1  # weights that change are inputs from now on, in the end all
                self._static = tuple(n for n in self._static if n not in changed) if self._rebuilt < _REBUILDS else ()
            constants = {n: inputs[n] for n in self._static if can_freeze(inputs[n])}
            frozen = tuple(FrozenWeight(n, tensor) for n, tensor in constants.items())
            self._state = state = _State(self._compiled(constants), frozen)
            return state

    def _compiled(self, constants: Mapping[int, torch.Tensor]) -> Callable[..., Any]:
        self.fallbacks = Fallbacks(self.fallbacks)
        if not self.options.fallback:
            for fault in foreign_nodes(self.graph_module.graph).values():
                hint = "with the option fallback (the default) PyTorch runs it"
                raise UnsupportedError(f"{fault.operator}: {fault.reason}", span=fault.span, hint=hint)
            self.programs = [self._program(self.graph_module, constants)]
            return self.programs[0]
        run, self.programs = split(self.graph_module, self._program, constants, self.fallbacks)
        return run

    def _program(self, graph_module: fx.GraphModule, constants: Mapping[int, torch.Tensor]) -> GraphProgram:
        lenient = self.options.fallback
        mod, face = import_graph(graph_module, constants=constants, name="the graph", lenient=lenient)
        eager = graph_module.forward if lenient else None
        return GraphProgram(compile_module(mod, self.options.compile_options()).executable, face, eager)
