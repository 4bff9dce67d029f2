"""Graphs of ATen's operators, as AOTAutograd and `make_fx` make them, as modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from legato.arith.expr import Expr as DimExpr
from legato.base.dataclass import dataclass
from legato.base.dtype import int64
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Float
from legato.frontend.torch.inputs import GraphImport
from legato.frontend.torch.signature import Converter, require_known
from legato.ir.expr import Expr
from legato.ir.module import Module

__all__ = ["GraphFace", "axes_in_memory", "import_graph"]

_COMPUTED = ("tensor", "size", "float")


@dataclass(frozen=True, slots=True)
class GraphFace:
    """How a call of a graph becomes one of @main. `given`: which of the graph's inputs are parameters, in order;
    `results`: for each output, "tensor" with the order of its axes in memory (None: row-major), "size" (an integer),
    "float", "input" with the number of the input that it is, or "constant" with its value."""

    given: tuple[int, ...]
    results: tuple[tuple[str, Any], ...]


def import_graph(
    graph_module: fx.GraphModule,
    *,
    custom: Mapping[str, Converter] | None = None,
    constants: Mapping[int, torch.Tensor] | None = None,
    name: str = "the graph",
    lenient: bool = False,
) -> tuple[Module, GraphFace]:
    """The module of a functional graph whose nodes have their traced values (`meta["val"]`), and how to call it.

    constants: inputs that are these tensors in every call. Raises GraphFaults with all that cannot be compiled;
    lenient: nodes with which a converter fails by a bug are among that.
    """
    nodes = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    require_known(custom or {})
    work = GraphImport(graph_module, custom, _ranges(nodes))
    work.walk.lenient = lenient
    inputs: list[Any] = []
    given: list[int] = []
    for n, node in enumerate(nodes):
        before = len(work.params)
        fixed = (constants or {}).get(n)
        inputs.append(_input(work, node) if fixed is None else work.constant(fixed, node.name))
        given += [n] if len(work.params) > before else []
    values = work.walk.graph(graph_module, inputs)
    work.walk.require_whole(name)
    results = _results(graph_module, values if isinstance(values, tuple) else (values,), nodes)
    exprs = [work.b.operand(v, int64) if kind == "size" else v for v, (kind, _) in results if kind in _COMPUTED]
    main = work.b.function(tuple(work.params), exprs[0] if len(exprs) == 1 else work.b.tuple_(exprs))
    return Module.from_expr(main), GraphFace(tuple(given), tuple(result for _, result in results))


def _ranges(nodes: Sequence[fx.Node]) -> Mapping[Any, Any]:
    """The bounds of the symbols in a graph's inputs, which PyTorch tests before it calls the graph."""
    for node in nodes:
        traced = node.meta.get("val")
        for size in traced.shape if isinstance(traced, torch.Tensor) else (traced,):
            if isinstance(size, torch.SymInt):
                return size.node.shape_env.var_to_range  # type: ignore[no-any-return]
    return {}


def _input(work: GraphImport, node: fx.Node) -> Any:
    traced = node.meta.get("val")
    if isinstance(traced, torch.Tensor):
        return work.tensor(node.name, traced)
    if isinstance(traced, torch.SymInt):
        return work.size(node.name, traced)
    if isinstance(traced, torch.SymFloat):
        return work.number(node.name)
    if traced is None or isinstance(traced, int | float | bool | str):
        return traced
    hint = "give it as a tensor, an integer or a float"
    raise UnsupportedError(f"the input {node.name}: a {type(traced).__name__}", hint=hint)


def _results(
    graph_module: fx.GraphModule, values: Sequence[Any], inputs: Sequence[fx.Node]
) -> list[tuple[Any, tuple[str, Any]]]:
    """What each output is, with its value."""
    (output,) = (n for n in graph_module.graph.nodes if n.op == "output")
    nodes = output.args[0] if isinstance(output.args[0], tuple | list) else (output.args[0],)
    found: list[tuple[Any, tuple[str, Any]]] = []
    for node, value in zip(nodes, values, strict=True):
        if isinstance(value, Expr):
            traced = node.meta.get("val")
            is_input = node in inputs
            found.append((value, ("input", inputs.index(node)) if is_input else ("tensor", axes_in_memory(traced))))
        elif isinstance(value, Float):
            found.append((value.value, ("float", None)))
        elif isinstance(value, DimExpr):
            found.append((value, ("size", None)))
        else:
            found.append((value, ("constant", value)))
    return found


def axes_in_memory(traced: Any) -> tuple[int, ...] | None:
    """The axes of a tensor from the outermost on, as it lies in memory; None where it lies in row-major order, or where
    the data decides its extents."""
    if not isinstance(traced, torch.Tensor) or has_free_unbacked_symbols(traced) or traced.is_contiguous():
        return None
    given: list[Any] = list(traced.stride())
    strides = [s if isinstance(s, int) else s.node.hint for s in given]
    return tuple(sorted(range(traced.dim()), key=lambda axis: -strides[axis]))
