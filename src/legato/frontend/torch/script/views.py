"""How a write to a view writes its base: for each operator that gives one, the operator that puts it back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from legato.arith.expr import Expr as DimExpr
from legato.base.errors import UnsupportedError
from legato.frontend.torch.emitter import Emitter
from legato.frontend.torch.signature import arguments, find
from legato.ir.expr import Expr

__all__ = ["MAY_COPY", "called", "writer"]

MAY_COPY: Final = frozenset({"reshape", "contiguous", "to", "flatten", "expand_as", "broadcast_to", "type_as"})
_SCATTER: Final = {"select": torch.ops.aten.select_scatter.default, "slice": torch.ops.aten.slice_scatter.default,
                   "diagonal": torch.ops.aten.diagonal_scatter.default}  # fmt: skip
_REORDERED: Final = frozenset({"view", "_unsafe_view", "unsqueeze", "squeeze", "view_as", "unflatten"})
_SAME: Final = frozenset({"detach", "alias"})


def called(b: Emitter, operator: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What the converter of an operator makes of its arguments."""
    function = find(operator)
    if function is None:
        raise UnsupportedError(f"{operator}: no converter")
    return function(b, **arguments(function, operator._schema, args, kwargs))


def writer(b: Emitter, name: str, args: tuple[Any, ...]) -> Callable[[Expr, Expr], Expr] | None:
    """From a base's value and a view's new one, the base's new one; None: there is no such rule. `args` are those of
    the operator behind its first."""
    if name in _SAME:
        return lambda base, view: view
    if name in _REORDERED:
        return lambda base, view: b.reshape(view, newshape=b.dims_of(base))
    if name in _SCATTER:
        return lambda base, view: called(b, _SCATTER[name], (base, view, *args), {})
    if name in ("transpose", "t", "numpy_T"):
        axes = args or (-1, -2)
        return lambda base, view: called(b, torch.ops.aten.transpose.int, (view, *axes), {})
    if name == "permute":
        return lambda base, view: b.transpose(view, axes=_inverse(b, args[0], b.rank(base)))
    return None


def _inverse(b: Emitter, order: tuple[int | DimExpr, ...], rank: int) -> tuple[int, ...]:
    axes = [b.axis_of(a, rank) for a in order]
    return tuple(sorted(range(rank), key=axes.__getitem__))
