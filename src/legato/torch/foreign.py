"""What of a graph cannot even enter a program: values that Legato has no type for, and results that are views whose
place in memory sizes decide, for PyTorch reads that place off them."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from legato.base.errors import UnsupportedError
from legato.frontend.torch.dtypes import from_torch
from legato.frontend.torch.graphs import axes_in_memory
from legato.frontend.torch.walk import Fault, operator_name, span_of

__all__ = ["foreign_inputs", "foreign_nodes"]

_NUMBERS = int | float | str | torch.SymInt | torch.SymFloat  # bool is an int; a SymBool is none


def foreign_nodes(graph: fx.Graph) -> dict[str, Fault]:
    """The operators that take or give values that no program has, with what these are."""
    found = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        values = [n.meta.get("val") for n in node.all_input_nodes] + [node.meta.get("val")]
        reason = next((text for v in values if (text := _reason(v)) is not None), None)
        if reason is not None:
            found[node.name] = Fault(node.name, operator_name(node), reason, span_of(node))
    return found | _returned_views(graph)


def _returned_views(graph: fx.Graph) -> dict[str, Fault]:
    """Results that are parts of other tensors, with all between: AOTAutograd makes them anew, of the tensor that they
    are a view of and of what a result says of its sizes, strides and offset. What is no view says others."""
    found = {}
    (output,) = (n for n in graph.nodes if n.op == "output")
    for node in output.all_input_nodes:
        if not _is_part(node.meta.get("val")):
            continue
        while _is_view(node):
            reason = "a result that is a view, whose place in memory sizes decide"
            found[node.name] = Fault(node.name, operator_name(node), reason, span_of(node))
            node = node.args[0]
    return found


def _is_part(traced: Any) -> bool:
    """Whether a tensor of symbolic sizes lies elsewhere than one that is dense, and alone in its memory."""
    if not isinstance(traced, torch.Tensor) or traced.layout is not torch.strided:
        return False
    offset: Any = traced.storage_offset()
    place: list[Any] = [*traced.shape, *traced.stride(), offset]
    if all(isinstance(n, int) for n in place):
        return False
    if not isinstance(offset, int) or offset or has_free_unbacked_symbols(traced):
        return True
    order = axes_in_memory(traced)
    return order is not None and not traced.permute(order).is_contiguous()


def _is_view(node: Any) -> bool:
    if not isinstance(node, fx.Node) or not isinstance(node.target, torch._ops.OpOverload):
        return False
    schema = node.target._schema
    return bool(schema.returns) and schema.returns[0].alias_info is not None and not schema.is_mutable


def foreign_inputs(graph: fx.Graph) -> bool:
    """Whether the graph is given values that no program has, be they used or not."""
    return any(_reason(n.meta.get("val")) is not None for n in graph.nodes if n.op == "placeholder")


def _reason(value: Any) -> str | None:
    """Why no program has a value; None: one may have it."""
    if isinstance(value, tuple | list):
        return next((text for v in value if (text := _reason(v)) is not None), None)
    if isinstance(value, torch.Tensor):
        return _of_tensor(value)
    if value is None or isinstance(value, _NUMBERS):
        return None
    return f"a {type(value).__name__}"


def _of_tensor(tensor: torch.Tensor) -> str | None:
    if tensor.device.type != "cpu":
        return f"tensors on {tensor.device}"
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
        return "tensors that are not dense"
    try:
        from_torch(tensor.dtype)
    except UnsupportedError as error:
        return error.message
    return None
