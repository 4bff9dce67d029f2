"""What PyTorch expresses by other operators before a graph is imported: all that has no converter of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from legato.frontend.torch.signature import Converter, find

__all__ = ["decompositions"]


def decompositions(custom: Mapping[str, Converter] | None = None) -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions of operators into its core set, without those that have a converter."""
    table = torch.export.default_decompositions().materialize()
    return {op: function for op, function in table.items() if find(op, custom) is None}
