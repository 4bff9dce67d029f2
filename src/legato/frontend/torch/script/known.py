"""Operators on a tensor that tell what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import torch

from legato.arith.expr import Expr as DimExpr
from legato.base.dtype import float32
from legato.base.errors import UnsupportedError
from legato.frontend.torch.dtypes import array_of, to_torch
from legato.frontend.torch.script.boxes import Box, View, boxes_of
from legato.frontend.torch.script.numbers import Scalar, dtype_of, is_plain, scalar_tensor
from legato.frontend.torch.script.views import row
from legato.frontend.torch.symbols import number

if TYPE_CHECKING:
    from legato.frontend.torch.script.walk import ScriptWalk

__all__ = ["SPECIAL", "made_of_numbers"]


def _size(walk: ScriptWalk, x: Box, dim: int | None = None) -> Any:
    dims = [number(d) for d in walk.b.dims_of(x.get())]
    return walk.items(dims) if dim is None else dims[walk.b.axis_of(dim, len(dims))]


def _select(walk: ScriptWalk, x: Box, dim: int, index: Any) -> Any:
    """A row whose number the program computes."""
    if not isinstance(index, Scalar):
        return NotImplemented
    read, write = row(walk.b, walk.b.axis_of(dim, walk.b.rank(x.get())), index.value)
    return View(x, read, write, "select", lambda: walk.scope)


def made_of_numbers(walk: ScriptWalk, value: Any, dtype: int | None = None, *_: Any) -> Box:
    """`torch.tensor` of numbers, or of lists of such: floats are float32 unless a dtype is named."""
    wanted = None if dtype is None else dtype_of(dtype)
    if isinstance(value, Scalar | DimExpr):
        number = scalar_tensor(walk.b, value)
        default = float32 if walk.b.dtype(number).is_float else walk.b.dtype(number)
        return walk.box(walk.b.to(number, wanted or default))
    if not is_plain(value) or boxes_of(value):
        raise UnsupportedError("a tensor of a list of numbers that the program computes", hint="use torch.stack")
    plain = torch.tensor(value, dtype=None if wanted is None else to_torch(wanted))
    if plain.dtype == torch.float64 and wanted is None:
        plain = plain.to(torch.float32)
    return walk.box(walk.b.constant(array_of(plain, "a tensor of numbers")))


SPECIAL: Final[Mapping[str, Callable[..., Any]]] = {
    "size": _size,
    "select": _select,
    "dim": lambda walk, x: walk.b.rank(x.get()),
    "ndimension": lambda walk, x: walk.b.rank(x.get()),
    "len": lambda walk, x: number(walk.b.dims_of(x.get())[0]),
    "numel": lambda walk, x: number(walk.b.product(walk.b.dims_of(x.get()))),
    "is_floating_point": lambda walk, x: walk.b.dtype(x.get()).is_float,
    "__is__": lambda walk, x, y: x is y,
    "__isnot__": lambda walk, x, y: x is not y,
}
"""Operators on a tensor that give what is known of it; NotImplemented: its converter is to be asked."""
