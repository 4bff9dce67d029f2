"""What of a graph cannot even enter a program: values that Legato has no type for."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from legato.base.errors import UnsupportedError
from legato.frontend.torch.dtypes import from_torch
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
    return found


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
