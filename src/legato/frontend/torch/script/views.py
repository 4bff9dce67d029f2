"""How a write to a view writes its base: for each operator that gives one, the operator that puts it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from legato.arith.expr import Const
from legato.arith.expr import Expr as DimExpr
from legato.base.dtype import int64
from legato.frontend.torch.emitter import Emitter
from legato.frontend.torch.script.boxes import Written
from legato.frontend.torch.signature import arguments, find
from legato.ir.expr import Expr

__all__ = ["DROPOUT", "MAY_COPY", "MAY_SHARE", "PARTS", "part_writer", "row", "writer"]

MAY_COPY: Final = frozenset({"reshape", "reshape_as", "contiguous", "to", "flatten", "ravel"})
MAY_SHARE: Final = frozenset(
    {
        "type_as",
        "einsum",
        "broadcast_tensors",
        "meshgrid",
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "sum_to_size",
        "_unsafe_view",
        "lift",
        "align_as",
        "align_tensors",
        "cartesian_prod",
        "combinations",
    }
)
"""Operators whose schemas do not say that results may be operands, or views of them."""
PARTS: Final = frozenset({"split", "split_with_sizes", "chunk", "tensor_split", "unsafe_chunk", "unsafe_split",
                          "unsafe_split_with_sizes"})  # fmt: skip
"""Operators that cut a tensor along the axis `dim`: what they give are views, whatever their schemas say."""
DROPOUT: Final = frozenset({"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"})
"""Operators that give their operand itself unless they are in training."""
_SCATTER: Final = {"select": torch.ops.aten.select_scatter.default, "slice": torch.ops.aten.slice_scatter.default,
                   "diagonal": torch.ops.aten.diagonal_scatter.default}  # fmt: skip
_REORDERED: Final = frozenset({"view", "_unsafe_view", "unsqueeze", "squeeze", "view_as", "unflatten"})
_SAME: Final = frozenset({"detach", "alias"})


def writer(b: Emitter, name: str, args: tuple[Any, ...]) -> Written | None:
    """From a base's value and a view's new one, the base's new one; None: there is no such rule. `args` are those of
    the operator behind its first."""
    if name in _SAME:
        return lambda base, view: view
    if name in _REORDERED:
        return lambda base, view: b.in_shape(view, b.dims_of(base))
    if name in _SCATTER:
        return lambda base, view: _converted(b, _SCATTER[name], (base, view, *args))
    if name in ("transpose", "t", "numpy_T"):
        axes = args or (-1, -2)
        return lambda base, view: _swapped(b, view, *axes)
    if name == "permute":
        return lambda base, view: b.transpose(view, axes=_inverse(b, args[0], b.rank(base)))
    return None


def _inverse(b: Emitter, order: tuple[int | DimExpr, ...], rank: int) -> tuple[int, ...]:
    axes = [b.axis_of(a, rank) for a in order]
    return tuple(sorted(range(rank), key=axes.__getitem__))


def _swapped(b: Emitter, x: Expr, first: int, second: int) -> Expr:
    rank = b.rank(x)
    axes = list(range(rank))
    if rank > 1:
        i, j = b.axis_of(first, rank), b.axis_of(second, rank)
        axes[i], axes[j] = axes[j], axes[i]
    return b.permuted(x, axes)


def _converted(b: Emitter, operator: Any, args: tuple[Any, ...]) -> Expr:
    function = find(operator)
    assert function is not None  # of the operators in _SCATTER
    found = function(b, **arguments(function, operator._schema, args, {}))
    assert isinstance(found, Expr)
    return found


def part_writer(b: Emitter, name: str, dim: Any, parts: Sequence[Expr], n: int) -> Written | None:
    """The same for the part of a tensor with a number that `split` and its kin give, beside others along an axis."""
    if name == "unbind":
        return lambda base, view: _converted(b, _SCATTER["select"], (base, view, dim, n))
    if name not in PARTS or not isinstance(dim, int):
        return None
    axis = b.axis_of(dim, b.rank(parts[n]))
    dims = [b.dims_of(p)[axis] for p in parts[: n + 1]]
    sizes = [int(d.value) for d in dims if isinstance(d, Const)]
    if len(sizes) < len(dims):
        return None
    begin, end = sum(sizes[:-1]), sum(sizes)
    scatter = torch.ops.aten.slice_scatter.default
    return lambda base, view: _converted(b, scatter, (base, view, axis, begin, end))


def row(b: Emitter, axis: int, index: Expr) -> tuple[Callable[[Expr], Expr], Written]:
    """How the row of a tensor is read whose number the program computes (int64, from the end where negative), and how
    a tensor is written there."""

    def place(base: Expr) -> Expr:
        behind = b.add(index, b.extent(b.dims_of(base)[axis], int64))
        return b.where(b.less(index, b.constant(0, int64)), behind, index)

    def read(base: Expr) -> Expr:
        return b.take(base, place(base), axis=axis)

    def write(base: Expr, view: Expr) -> Expr:
        order = (axis, *(n for n in range(b.rank(base)) if n != axis))
        front = b.permuted(base, order)
        at = b.reshape(place(base), newshape=(1, 1))
        new = b.scatter_nd(front, at, b.expand_dims(view, axis=0))
        return b.permuted(new, _inverse(b, order, len(order)))

    return read, write
