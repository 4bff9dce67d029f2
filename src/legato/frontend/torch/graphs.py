"""Graphs of ATen's operators, as AOTAutograd and `make_fx` make them, as modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from legato.arith.expr import Expr as DimExpr
from legato.base.dataclass import dataclass
from legato.base.dtype import int64
from legato.base.errors import UnsupportedError
from legato.frontend.torch.inputs import GraphImport
from legato.frontend.torch.signature import Converter
from legato.ir.expr import Expr
from legato.ir.module import Module

__all__ = ["GraphFace", "import_graph"]


@dataclass(frozen=True, slots=True)
class GraphFace:
    """How a call of a graph becomes one of @main. `given`: which of the graph's inputs are parameters, in order;
    `results`: for each output, "tensor", "size" (an integer), or "constant", with its value."""

    given: tuple[int, ...]
    results: tuple[tuple[str, Any], ...]


def import_graph(
    graph_module: fx.GraphModule,
    *,
    custom: Mapping[str, Converter] | None = None,
    ranges: Mapping[Any, Any] | None = None,
    name: str = "the graph",
) -> tuple[Module, GraphFace]:
    """The module of a functional graph whose nodes have their traced values (`meta["val"]`), and how to call it."""
    work = GraphImport(graph_module, custom, ranges or {})
    nodes = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    inputs, given = [], []
    for n, node in enumerate(nodes):
        before = len(work.params)
        inputs.append(_input(work, node))
        given += [n] if len(work.params) > before else []
    values = work.walk.graph(graph_module.graph, inputs, work.attribute)
    work.walk.require_whole(name)
    values = values if isinstance(values, tuple) else (values,)
    results = tuple(_result(v) for v in values)
    exprs = [work.b.operand(v, int64) if kind == "size" else v for v, (kind, _) in zip(values, results, strict=True)
             if kind != "constant"]  # fmt: skip
    main = work.b.function(tuple(work.params), exprs[0] if len(exprs) == 1 else work.b.tuple_(exprs))
    return Module.from_expr(main), GraphFace(tuple(given), results)


def _input(work: GraphImport, node: fx.Node) -> Any:
    traced = node.meta.get("val")
    if isinstance(traced, torch.Tensor):
        return work.tensor(node.name, traced)
    if isinstance(traced, torch.SymInt):
        return work.size(node.name, traced)
    if traced is None or isinstance(traced, int | float | bool | str):
        return traced
    raise UnsupportedError(f"the input {node.name}: a {type(traced).__name__}")


def _result(value: Any) -> tuple[str, Any]:
    if isinstance(value, Expr):
        return "tensor", None
    return ("size", None) if isinstance(value, DimExpr) else ("constant", value)
