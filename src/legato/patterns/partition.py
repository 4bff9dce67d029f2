"""Partitioning: what matches becomes a function of its own, called where it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from legato.ir.expr import Call, Expr, Function, TupleGetItem, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.visit import substitute, with_operands
from legato.patterns.effects import RegionEffects
from legato.patterns.graph import Graph, typed
from legato.patterns.match import match_in
from legato.patterns.region import FROM_PATTERN, Region, finished, region_of
from legato.patterns.search import Search

if TYPE_CHECKING:
    from legato.patterns.pattern import Pattern

__all__ = ["partition"]


def partition(
    pattern: Pattern,
    expr: Expr,
    attrs: Mapping[str, Any] | None = None,
    check: Callable[[Expr], bool] = lambda e: True,
    module: Module | None = None,
) -> Expr:
    """`expr`, a part of `module`, with calls of functions for what matches `pattern` and passes `check`.

    Regions are looked for from the result on. None overlaps another; none has a value inside that is used outside, or
    inputs that would touch cells earlier than they do; none is cut out of a function that is primitive or comes from a
    pattern. Each becomes a function of its inputs; its attribute PartitionedFromPattern names its operators, `attrs`
    are its others. What had types has them afterwards.
    """
    graph = Graph(expr, module)
    regions = {id(r.match.root): r for r in _regions(pattern, graph, check)}
    if not regions:
        return expr
    new: dict[int, Expr] = {}
    for node in graph.order:
        region = regions.get(id(node))
        new[id(node)] = with_operands(node, new) if region is None else _call(region, new, attrs or {})
    found = new[id(expr)]
    return found if expr.ty is None else typed(found, module)


def _regions(pattern: Pattern, graph: Graph, check: Callable[[Expr], bool]) -> list[Region]:
    search, effects = Search(graph), RegionEffects(graph)
    taken = finished(graph)
    found: list[Region] = []
    for node in graph.candidates(pattern.head):
        match = None if id(node) in taken else match_in(search, pattern, node)
        if match is None or id(node) not in match.opened or not check(node):
            continue
        region = region_of(match)
        if not region.overlaps(taken) and not region.is_used_outside(graph) and effects.may_be_cut(region):
            taken.update(map(id, region.inside))
            found.append(region)
    return found


def _call(region: Region, new: Mapping[int, Expr], attrs: Mapping[str, Any]) -> Call:
    """The call of the function of a region, on what its inputs have become."""
    params = [Var(f"p{i}", ty=e.ty) for i, e in enumerate(region.inputs)]
    inner: dict[int, Expr] = {id(e): p for e, p in zip(region.inputs, params, strict=True) if not isinstance(e, Var)}
    for node in region.inside:
        inner[id(node)] = with_operands(node, inner)
    variables = {e: p for e, p in zip(region.inputs, params, strict=True) if isinstance(e, Var)}
    root = region.match.root
    body = substitute(inner[id(root)], variables)
    name = "".join(map(_name, region.inside))
    func = Function(tuple(params), body, attrs={FROM_PATTERN: name, **attrs})
    return Call(func, tuple(new[id(e)] for e in region.inputs), ty=root.ty, span=root.span)


def _name(e: Expr) -> str:
    """What a node adds to the name of a region."""
    match e:
        case Call(op=Op() as op):
            return f"{op.name}_"
        case TupleGetItem(_, index):
            return f"TupleGetItem{index}_"
        case Function():
            return "Function"
        case _:
            return f"{type(e).__name__}_"
