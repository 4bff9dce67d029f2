"""Sizes of tensors as numbers, and what a trace says of them."""

from __future__ import annotations

from legato.frontend.torch.emitter import Emitter, Size
from legato.frontend.torch.signature import aten
from legato.frontend.torch.symbols import number
from legato.ir.expr import Expr


@aten("sym_size.int")
def sym_size(b: Emitter, self: Expr, dim: Size) -> Size:
    return number(b.dim_of(self, b.literal(dim, "an axis")))


@aten("sym_numel")
def sym_numel(b: Emitter, self: Expr) -> Size:
    return number(b.product(b.dims_of(self)))
