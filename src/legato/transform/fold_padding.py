"""Padding in front of a convolution or a pooling becomes the padding of that.

    nn.conv2d(nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]), %w)
        =>
    nn.conv2d(%x, %w, padding=[1, 1, 1, 1])

Where the elements are those that the operator has around its data: 0 for a convolution; −∞, or the smallest integer,
for a maximum; 0 for an average whose padding counts, or that has none: its padding counts then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from legato.arith.expr import Const
from legato.base.dataclass import dataclass
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, Function
from legato.ir.layout import is_blocked
from legato.ir.module import Module
from legato.ir.types import Dim, TensorType
from legato.ops._dtypes import convert, smallest
from legato.ops._window import pads, spatial_letters
from legato.ops.conv import conv1d, conv2d, conv3d
from legato.ops.pad import pad
from legato.ops.pool import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from legato.transform.pass_ import FunctionPass

__all__ = ["FoldPadding"]

_CONVOLUTIONS = (conv1d, conv2d, conv3d)
_MAXIMA = (max_pool1d, max_pool2d, max_pool3d)
_AVERAGES = (avg_pool1d, avg_pool2d, avg_pool3d)

Widths = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FoldPadding(FunctionPass):
    """Typed module → typed module."""

    name = "fold-padding"

    def function(self, func: Function, mod: Module) -> Function:
        body = transform(func.body, _folded)
        return func if body is func.body else replace(func, body=body)


def _folded(node: Expr) -> Expr | None:
    """The call with all padding in front of it, which may be of several calls, as its own."""
    found = _once(node)
    while found is not None and (more := _once(found)) is not None:
        found = more
    return found


def _once(call: Expr) -> Call | None:
    if not isinstance(call, Call) or call.op not in (*_CONVOLUTIONS, *_MAXIMA, *_AVERAGES):
        return None
    inner = call.args[0]
    if not isinstance(inner, Call) or inner.op is not pad or inner.attrs.pad_mode != "constant":
        return None
    layout = call.attrs.data_layout if call.op in _CONVOLUTIONS else call.attrs.layout
    widths = None if is_blocked(layout) else _widths(inner, layout)
    attrs = None if widths is None else _with_padding(call, inner, widths)
    if attrs is None:
        return None
    made = Builder(span=call.span).call_op(call.op, (inner.args[0], *call.args[1:]), attrs)
    return made if made.ty == call.ty else None  # windows that overhang start where there is data


def _widths(call: Call, layout: str) -> Widths | None:
    """By how much spatial dimensions are padded; None where these are no numbers of at least 0, or others are."""
    found = dict(zip(layout, ((_number(a), _number(b)) for a, b in call.attrs.pad_width), strict=True))
    along = [found.pop(letter) for letter in spatial_letters(len(layout) - 2)]
    if any(w for width in found.values() for w in width) or any(w < 0 for width in along for w in width):
        return None
    return along


def _number(width: Dim | int) -> int:
    """A width; -1 where it is none that an attribute could state."""
    return int(width.value) if isinstance(width, Const) else width if isinstance(width, int) else -1


def _with_padding(call: Call, inner: Call, widths: Widths) -> Any:
    """The attributes with more padding; None where it is not the same."""
    data, value = inner.args[0].ty, inner.args[1]
    if not isinstance(data, TensorType) or not isinstance(value, Constant):
        return None
    outside = convert(value.data, data.dtype)
    attrs, old = call.attrs, pads(call.attrs.padding, len(widths))
    sides = [(a + b, c + d) for (a, c), (b, d) in zip(old, widths, strict=True)]
    padding = tuple(before for before, _ in sides) + tuple(after for _, after in sides)
    if call.op in _MAXIMA:
        return replace(attrs, padding=padding) if outside == smallest(data.dtype) else None
    if outside != 0 or (data.dtype.is_float and np.signbit(outside)):
        return None
    if call.op in _CONVOLUTIONS:
        return replace(attrs, padding=padding)
    if not attrs.count_include_pad and any(side for sides in old for side in sides):
        return None
    return replace(attrs, padding=padding, count_include_pad=True)
