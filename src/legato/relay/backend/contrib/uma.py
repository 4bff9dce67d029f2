"""Accelerators by the hooks of Relay's UMA: a class that registers patterns and passes, as one code generator.

    class Vanilla(UMABackend):
        def __init__(self):
            super().__init__()
            self._register_pattern("dense_relu", pattern)

        @property
        def target_name(self):
            return "vanilla"

    backend = Vanilla()
    backend.register()
    exe = relay.build(backend.partition(mod))

A backend is a generator like any other (`legato.generators`): its patterns are the generator's, and what it takes is
compiled by `compile`, which C source does unless a subclass has its own. Single operators it takes where a subclass has
`supports`.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

from legato.base.errors import UnsupportedError
from legato.base.kinds import require
from legato.generators import CSource, MergeComposite
from legato.generators.annotate_target import AnnotateTarget
from legato.generators.generator import Composite, supports_of
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.patterns import Pattern
from legato.relay._external import register_generator
from legato.relay._passes import Pass
from legato.relay.build_module import with_params
from legato.relay.module import IRModule
from legato.transform.infer_types import InferTypes
from legato.transform.merge_compiler_regions import MergeCompilerRegions
from legato.transform.partition_graph import PartitionGraph
from legato.transform.pass_ import run
from legato.transform.to_graph import ToGraph

__all__ = ["PassPhase", "UMABackend"]


class PassPhase(enum.Enum):
    """When a pass of a backend runs: before patterns are looked for, before regions are merged, behind partitioning.

    Nothing runs in the phases of loops (TIR_PHASE_…): what has them is refused.
    """

    PRE_PARTITIONING = 0
    POST_PARTITIONING_0 = 1
    POST_PARTITIONING_1 = 2
    TIR_PHASE_0 = 3
    TIR_PHASE_1 = 4
    TIR_PHASE_2 = 5
    TIR_PHASE_3 = 6


_OF_GRAPHS: Final = (PassPhase.PRE_PARTITIONING, PassPhase.POST_PARTITIONING_0, PassPhase.POST_PARTITIONING_1)


class UMABackend(ABC):
    """A backend. Subclasses say what they take in their constructor, by `_register_pattern` and `_register_relay_pass`.

    merge_compiler_regions: neighbouring regions become one function.
    """

    def __init__(self, merge_compiler_regions: bool = True) -> None:
        self._merge = merge_compiler_regions
        self._patterns: list[Composite] = []
        self._passes: list[tuple[PassPhase, Pass]] = []

    @property
    @abstractmethod
    def target_name(self) -> str:
        """What the backend is called."""

    # ------------------------------------------------------------------------------------------------ the generator

    @property
    def name(self) -> str:
        """`target_name`."""
        return self.target_name

    @property
    def composites(self) -> tuple[Composite, ...]:
        """The patterns that are registered."""
        return tuple(self._patterns)

    def compile(self, function: Function) -> Any:
        """The engine of a function: its C source, compiled."""
        return CSource(self.name).compile(function)

    # ------------------------------------------------------------------------------------------------ hooks

    def _register_pattern(self, name: str, pattern: Pattern, predicate: Callable[[Any], bool] | None = None) -> None:
        """What `pattern` matches, and `predicate` holds for, is a call of the backend's operator `name`."""
        entry = (f"{self.target_name}.{name}", pattern)
        self._patterns.append(entry if predicate is None else (*entry, predicate))

    def _register_relay_pass(self, phase: PassPhase, relay_pass: Pass) -> None:
        """A pass that `partition` runs in a phase of the graph. CompileError for another phase, and for no pass."""
        require(phase in _OF_GRAPHS, phase, "the phase of a Relay pass", f"one of {', '.join(map(str, _OF_GRAPHS))}")
        require(isinstance(relay_pass, Pass), relay_pass, "a Relay pass", "what relay.transform makes")
        self._passes.append((phase, relay_pass))

    def _register_tir_pass(self, phase: Any, tir_pass: Any) -> None:
        """UnsupportedError: a backend gets a function of operators, of which its own `compile` makes loops."""
        raise UnsupportedError(
            "passes over loops cannot be registered: a backend is given functions of operators, and no loops of ours",
            hint="override compile(function): it makes the loops, and can run such passes over them",
        )

    def _register_operator_strategy(self, op: str, strategy: Any, plevel: int = 11) -> None:
        """UnsupportedError: nobody would ask for it."""
        raise UnsupportedError(
            "strategies of operators cannot be registered: a backend schedules what it takes by itself",
            hint="override compile(function)",
        )

    def _register_target_attr(self, name: str, default: Any = "") -> None:
        """UnsupportedError: a backend is an object, whose options are its own."""
        raise UnsupportedError(
            f"the target attribute {name!r} cannot be registered: targets name the CPU and its instructions",
            hint="make it an argument of the backend's constructor",
        )

    def _register_codegen(self, fmt: str = "c", **kwargs: Any) -> None:
        """Says that C is made, which it is. UnsupportedError for another form, and for pieces of text to be put in."""
        if fmt != "c" or any(value is not None for value in kwargs.values()):
            raise UnsupportedError(f"no code is made as {fmt!r} with {', '.join(kwargs) or 'no options'}",
                                   hint="override compile: it makes an engine of a function")  # fmt: skip

    # ------------------------------------------------------------------------------------------------ use

    def register(self) -> None:
        """Makes the backend known by its name."""
        register_generator(self)

    def partition(self, mod: IRModule, params: Mapping[str, Any] | None = None) -> IRModule:
        """`mod`, with `params` bound in @main, cut into what the backend takes and the rest."""
        module = self._passed(PassPhase.PRE_PARTITIONING, with_params(mod, params).module)
        module = run(module, (InferTypes(), ToGraph(), MergeComposite(self.composites), InferTypes()))
        module = AnnotateTarget(((self.name, supports_of(self)),))(module)
        module = self._passed(PassPhase.POST_PARTITIONING_0, module)
        module = MergeCompilerRegions()(module) if self._merge else module
        module = PartitionGraph("tvmgen_default_")(InferTypes()(module))
        return IRModule(self._passed(PassPhase.POST_PARTITIONING_1, module))

    def _passed(self, phase: PassPhase, module: Module) -> Module:
        found = IRModule(module)
        for at, relay_pass in self._passes:
            found = relay_pass(found) if at is phase else found
        return found.module
