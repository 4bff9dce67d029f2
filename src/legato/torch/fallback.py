"""Graphs of which Legato can compile a part: its parts become programs, the operators between them run in eager."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from legato.base.errors import LegatoError
from legato.frontend.torch.walk import Fault, GraphFaults

__all__ = ["Fallbacks", "split"]

_log = logging.getLogger("legato.torch")
Build = Callable[[fx.GraphModule, Mapping[int, torch.Tensor]], Any]


class Fallbacks:
    """What of a graph runs in eager: nodes with their reasons, and parts that could not be compiled for another."""

    def __init__(self) -> None:
        self.faults: dict[str, Fault] = {}
        self.parts: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.faults or self.parts)

    def add(self, faults: Mapping[str, Fault]) -> None:
        """Notes nodes, each operator and reason once in the log."""
        before = {(f.operator, f.reason) for f in self.faults.values()}
        self.faults.update(faults)
        for fault in {(f.operator, f.reason): f for f in faults.values()}.values():
            if (fault.operator, fault.reason) not in before:
                _log.warning("%s runs in eager: %s (at %s)", fault.operator, fault.reason, fault.span)

    def add_part(self, error: LegatoError) -> None:
        """Notes a part that failed as a whole."""
        self.parts.append(str(error))
        _log.warning("a part of the graph runs in eager: %s", error)


class _Support(OperatorSupportBase):
    """Which nodes may be in a program: those that are not known to be impossible."""

    def __init__(self, refused: Mapping[str, Fault]) -> None:
        self.refused = refused

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: fx.Node) -> bool:
        return node.op == "call_function" and node.name not in self.refused


def split(graph_module: fx.GraphModule, build: Build, constants: Mapping[int, torch.Tensor], notes: Fallbacks) -> Any:
    """A function like the graph: a program where `build` takes all of it; else one of programs and single operators."""
    try:
        return build(graph_module, constants)
    except GraphFaults as error:
        notes.add(error.faults)
    except LegatoError as error:
        notes.add_part(error)
        return graph_module.forward
    return _parts(graph_module, build, notes)


def _parts(graph_module: fx.GraphModule, build: Build, notes: Fallbacks) -> Any:
    """The graph with programs in the place of its parts; a part that turns out to hold what cannot be is cut again."""
    while True:
        copied = fx.GraphModule(graph_module, graph_module.graph.__class__())
        copied.graph.output(copied.graph.graph_copy(graph_module.graph, {}))
        partitioner = CapabilityBasedPartitioner(copied, _Support(notes.faults), allows_single_node_partition=True)
        fused = partitioner.fuse_partitions(partitioner.propose_partitions())
        try:
            return _filled(fused, build, notes)
        except GraphFaults as error:
            notes.add(error.faults)


def _filled(fused: fx.GraphModule, build: Build, notes: Fallbacks) -> Any:
    for name, part in list(fused.named_children()):
        if not isinstance(part, fx.GraphModule) or not name.startswith("fused_"):
            continue
        try:
            program = build(part, {})
        except GraphFaults:
            raise
        except LegatoError as error:
            notes.add_part(error)
            continue
        single = len(program.face.results) == 1
        setattr(fused, name, _Part(program, single))
    fused.recompile()
    return fused.forward


class _Part(torch.nn.Module):
    """A program in a graph: of one result, the result itself."""

    def __init__(self, program: Any, is_single: bool) -> None:
        super().__init__()
        self.program = program
        self.is_single = is_single

    def forward(self, *inputs: Any) -> Any:
        found = self.program(*inputs)
        return found[0] if self.is_single else found
