"""What every kind of graph needs: its parameters, from what PyTorch traced, and the tensors that it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

from legato.arith.expr import Var as DimVar
from legato.base.dtype import float64
from legato.frontend.torch.dtypes import array_of, from_torch
from legato.frontend.torch.emitter import Emitter, Float
from legato.frontend.torch.signature import Converter
from legato.frontend.torch.symbols import Symbols, number
from legato.frontend.torch.walk import Walk
from legato.ir.expr import Constant, Var
from legato.ir.types import ShapeType, TensorType

__all__ = ["GraphImport"]


class GraphImport:
    """An import under way. `params`: of @main, so far; `ranges`: bounds of symbols."""

    def __init__(
        self, graph_module: fx.GraphModule, custom: Mapping[str, Converter] | None, ranges: Mapping[Any, Any]
    ) -> None:
        self.graph_module = graph_module
        self.b = Emitter()
        self.symbols = Symbols(ranges)
        self.walk = Walk(self.b, self.symbols.dim, self.constant, custom)
        self.params: list[Var] = []
        self._constants: dict[tuple[Any, ...], Constant] = {}

    def tensor(self, name: str, traced: torch.Tensor) -> Var:
        """A parameter like a tensor of the trace."""
        shape = tuple(self.symbols.dim(s) for s in traced.shape)
        return self._param(name, TensorType(shape, from_torch(traced.dtype)))

    def size(self, name: str, traced: torch.SymInt) -> Any:
        """An integer that a call gives, as a parameter where it is a symbol."""
        dim = self.symbols.dim(traced)
        if isinstance(dim, DimVar):
            self._param(name, ShapeType((dim,)))
        return number(dim)

    def number(self, name: str) -> Float:
        """A float that a call gives."""
        return Float(self._param(name, TensorType((), float64)))

    def _param(self, name: str, ty: TensorType | ShapeType) -> Var:
        var = self.b.var(name, ty)
        self.params.append(var)
        return var

    def constant(self, tensor: torch.Tensor, name: str) -> Constant:
        """A constant over the memory of a weight; tied weights are one."""
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.is_neg())
        if key not in self._constants or not tensor.numel():
            self._constants[key] = self.b.weight(array_of(tensor, name), name)
        return self._constants[key]
