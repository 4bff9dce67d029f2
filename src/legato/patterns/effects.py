"""What the parts of a region do beside giving values, as far as it matters to who moves them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from legato.ir.effects import Effect, Effects
from legato.ir.expr import Expr, Function, GlobalVar
from legato.ir.module import Module
from legato.ir.visit import free_vars
from legato.patterns.graph import Graph, closed
from legato.patterns.region import Region

__all__ = ["RegionEffects", "unused_global"]


class RegionEffects:
    """The effects of what is in a graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _effects(self) -> Effects:
        """Those of the nodes: not looked for where nothing matches."""
        graph = self._graph
        root = graph.root if isinstance(graph.root, Function) else closed(free_vars(graph.root), graph.root)
        others = {} if graph.module is None else graph.module.functions
        types = {} if graph.module is None else graph.module.types
        return Effects(root, Module({unused_global(others): root, **others}, types))

    def may_be_cut(self, region: Region) -> bool:
        """Whether all inputs may be computed before what is inside: not if both touch cells, or the inside may fail or
        not end first."""
        if not self._effects.possible:
            return True
        touches = any(Effect.CELLS in self._effects.of(e) for e in region.inputs)
        return not touches or not any(map(self._effects.own, region.inside))

    def in_order(self, region: Region) -> list[Expr] | None:
        """The inputs with effects, as they are evaluated; None where something inside has some as well."""
        if not self._effects.possible:
            return []
        if any(map(self._effects.own, region.inside)):
            return None
        return [e for e in region.inputs if self._effects.of(e)]


def unused_global(functions: Iterable[GlobalVar]) -> GlobalVar:
    """A variable for a function whose name none of these has."""
    names = {gv.name for gv in functions}
    return GlobalVar(next(name for i in range(len(names) + 1) if (name := f"expression_{i}") not in names))
