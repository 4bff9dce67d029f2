"""What PyTorch expresses by other operators before a graph is imported: all that has no converter of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch

from legato.frontend.torch.signature import Converter, find

__all__ = ["decompositions"]


def decompositions(custom: Mapping[str, Converter] | None = None) -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions of operators into its core set, without those that have a converter."""
    own = _own(len(torch._C._dispatch_get_all_op_names()))
    return {op: function for op, function in own.items() if not custom or find(op, custom) is None}


@lru_cache(maxsize=1)
def _own(operators: int) -> Mapping[Any, Callable[..., Any]]:
    """The decompositions of all operators that are registered, of which there are so many."""
    table = torch.export.default_decompositions().materialize()
    found = {op: function for op, function in table.items() if find(op) is None}
    return {**found, torch.ops.aten.copy.default: _copied}


def _copied(self: torch.Tensor, src: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """A tensor's new value. Of `copy` itself, torch.export passes on `src` where a module's tensor is changed, even if
    that has another shape or dtype."""
    return src.to(self.dtype).expand(self.shape).clone(memory_format=torch.contiguous_format)
