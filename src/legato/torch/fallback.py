"""Graphs of which Legato can compile a part: its parts become programs, the operators between them run in eager."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from legato.base.errors import CompileError, InternalError, LegatoError, UnsupportedError
from legato.frontend.torch.walk import Fault, GraphFaults, operator_name, span_of
from legato.torch.foreign import foreign_inputs, foreign_nodes
from legato.torch.parts import Part, cut, join

__all__ = ["Fallbacks", "operators_of", "split"]

_log = logging.getLogger("legato.torch")
Weights = Mapping[int, torch.Tensor]
Split = tuple[Callable[..., Any], list[Any]]
Build = Callable[[fx.GraphModule, Weights], Any]


class Fallbacks:
    """What of a graph runs in eager: nodes with their reasons, and parts that could not be compiled for another, with
    how many operators these have (`lost`).

    logged: what the log has had of the same graph, and is not told again.
    """

    def __init__(self, logged: Fallbacks | None = None) -> None:
        self.faults: dict[str, Fault] = {}
        self.parts: list[str] = []
        self.lost = 0
        self._told: set[tuple[str, str]] = set() if logged is None else logged._told

    def __bool__(self) -> bool:
        return bool(self.faults or self.parts)

    def add(self, faults: Mapping[str, Fault]) -> None:
        """Notes nodes, each operator and reason once in the log."""
        self.faults.update(faults)
        for fault in faults.values():
            if (fault.operator, fault.reason) not in self._told:
                self._told.add((fault.operator, fault.reason))
                _log.warning("%s runs in eager: %s (at %s)", fault.operator, fault.reason, fault.span)

    def add_part(self, graph: fx.Graph, error: Exception) -> None:
        """Notes a part that failed as a whole."""
        told = _told(error)
        self.parts.append(str(told))
        self.lost += len(operators_of(graph))
        _log.warning("a part of the graph runs in eager: %s", told, exc_info=None if told is error else error)


def _told(error: Exception) -> LegatoError:
    """An error as the log has it; what is no error of Legato's is a bug of ours, but for memory."""
    if isinstance(error, LegatoError):
        return error
    if isinstance(error, MemoryError):
        return CompileError("there is not the memory to compile it")
    return InternalError(f"{type(error).__name__}: {error}")


def operators_of(graph: fx.Graph) -> list[Any]:
    """The nodes that call operators of PyTorch, in order."""
    return [n for n in graph.nodes if isinstance(n.target, torch._ops.OpOverload)]


def split(graph_module: fx.GraphModule, build: Build, constants: Weights, notes: Fallbacks) -> Split:
    """A function like the graph: a program where `build` takes all of it; else one of programs and single operators.
    With the programs that it has."""
    if (writes := _writes(graph_module.graph)) is not None:  # what is read before and after it must not move
        hint = "an operator that gives its result, in place of one that writes it"
        told = UnsupportedError(f"{operator_name(writes)} writes into a tensor", span=span_of(writes), hint=hint)
        notes.add_part(graph_module.graph, told)
        return graph_module.forward, []
    notes.add(foreign_nodes(graph_module.graph))
    if not notes.faults and not foreign_inputs(graph_module.graph):
        try:
            program = build(graph_module, constants)
            return program, [program]
        except GraphFaults as error:
            notes.add(error.faults)
        except Exception as error:
            notes.add_part(graph_module.graph, error)
            return graph_module.forward, []
    return _parts(graph_module, build, constants, notes)


def _writes(graph: fx.Graph) -> fx.Node | None:
    """A node that is not functional, as AOTAutograd leaves few."""
    return next((n for n in operators_of(graph) if n.target._schema.is_mutable), None)


def _parts(graph_module: fx.GraphModule, build: Build, constants: Weights, notes: Fallbacks) -> Split:
    """The graph with programs in the place of its parts; where a part turns out to hold what cannot be, cut again."""
    inputs = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    weights = {inputs[n]: tensor for n, tensor in constants.items()}
    built: dict[object, Any] = {}  # parts stay as they are where others are cut again
    while True:
        eager, parts = cut(graph_module, notes.faults)
        found: dict[str, Fault] = {}
        for part in parts.values():
            try:
                built[part.key] = built.get(part.key) or _built(part, build, weights)
            except GraphFaults as error:
                found |= {part.names[name]: fault for name, fault in error.faults.items()}
        if not found:
            return _joined(graph_module, eager, parts, built, notes)
        notes.add(found)


def _joined(
    graph_module: fx.GraphModule, eager: list[fx.Node], parts: Mapping[int, Part], built: Mapping[object, Any],
    notes: Fallbacks,
) -> Split:  # fmt: skip
    """The graph of its parts, a program each, or eager where that failed."""
    made, programs = {}, []
    for n, part in parts.items():
        if isinstance(run := built[part.key], Exception):
            notes.add_part(part.module.graph, run)
            run = part.module
        else:
            programs.append(run)
        made[n] = _Part(run)
    return join(graph_module, eager, parts, made).forward, programs


def _built(part: Part, build: Build, weights: Mapping[fx.Node, torch.Tensor]) -> Any:
    """A part as a program; the error, where it fails as a whole."""
    try:
        return build(part.module, {n: weights[node] for n, node in enumerate(part.inputs) if node in weights})
    except GraphFaults:
        raise
    except Exception as error:
        return error


class _Part(torch.nn.Module):
    """A part of a graph, as the graph has it: a module that has no parameters."""

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self.run = [run]  # modules are not searched for in lists

    def forward(self, *inputs: Any) -> Any:
        return self.run[0](*inputs)
