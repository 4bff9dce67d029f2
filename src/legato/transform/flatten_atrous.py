"""A convolution of every n-th pixel, written by way of the batch, becomes a dilated one.

    %0 = nn.space_to_batch_nd(%x, block_shape=[2, 2], paddings=[[2, 2], [2, 3]]);
    %1 = nn.conv2d(%0, %w, data_layout="NHWC");
    nn.batch_to_space_nd(%1, block_shape=[2, 2], crops=[[0, 0], [0, 1]])
        =>
    nn.conv2d(%x, %w, padding=[2, 2, 2, 2], dilation=[2, 2], data_layout="NHWC")

Where the padding that is then left is not negative, and nothing else uses the convolution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.base.node import post_order, rebuild
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr, Function
from legato.ir.module import Module
from legato.ops._window import pads, spatial_letters, spread
from legato.ops.conv import Conv2DAttrs, conv1d, conv2d, conv3d
from legato.ops.space_batch import batch_to_space_nd, space_to_batch_nd
from legato.transform.pass_ import FunctionPass

__all__ = ["FlattenAtrous"]

T = TypeVar("T")
Sides = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FlattenAtrous(FunctionPass):
    """Typed module → typed module."""

    name = "flatten-atrous"

    def function(self, func: Function, mod: Module) -> Function:
        uses = Counter(id(kid) for node in post_order([func.body]) for kid in node.children())
        new: dict[int, Expr] = {}
        for node in post_order([func.body]):
            fresh = rebuild(node, new)
            is_end = isinstance(node, Call) and node.op is batch_to_space_nd and uses[id(node.args[0])] == 1
            found = _flattened(fresh) if is_end else None
            new[id(node)] = fresh if found is None else found
        body = new[id(func.body)]
        return func if body is func.body else replace(func, body=body)


def _flattened(end: Expr) -> Call | None:
    """The dilated convolution for a batch_to_space_nd; None where it is the end of no such chain."""
    assert isinstance(end, Call)
    conv = end.args[0]
    if not isinstance(conv, Call) or conv.op not in (conv1d, conv2d, conv3d):
        return None
    begin = conv.args[0]
    if not isinstance(begin, Call) or begin.op is not space_to_batch_nd:
        return None
    outside = begin.attrs.pad_value
    attrs = _dilated(conv.attrs, begin.attrs.block_shape, begin.attrs.paddings, end.attrs.crops)
    if begin.attrs.block_shape != end.attrs.block_shape or outside != 0 or np.signbit(outside) or attrs is None:
        return None
    try:
        made = Builder(span=end.span).call_op(conv.op, (begin.args[0], *conv.args[1:]), attrs)
    except TypeCheckError:  # the crops leave nothing: its kernel would reach over more than there is
        return None
    return made if made.ty == end.ty else None


def _dilated(own: Conv2DAttrs, block: tuple[int, ...], paddings: Sides, crops: Sides) -> Conv2DAttrs | None:
    """The attributes of the dilated convolution; None where there are none."""
    letters = spatial_letters(len(own.data_layout) - 2)
    sizes = _by_letter(own.data_layout, block, 1)
    padded, cropped = (_by_letter(own.data_layout, sides, (0, 0)) for sides in (paddings, crops))
    if sizes is None or padded is None or cropped is None:
        return None
    if own.out_layout not in ("", own.data_layout) or set(spread(own.strides, len(letters))) != {1}:
        return None
    if sizes.get("C", 1) != 1 or any((*padded.get("C", ()), *cropped.get("C", ()))):
        return None
    sides = [
        tuple(p + n * sizes[c] - cut for p, n, cut in zip(padded[c], pair, cropped[c], strict=True))
        for c, pair in zip(letters, pads(own.padding, len(letters)), strict=True)
    ]
    if any(n < 0 for pair in sides for n in pair):
        return None
    dilation = tuple(d * sizes[c] for c, d in zip(letters, spread(own.dilation, len(letters)), strict=True))
    padding = (*(before for before, _ in sides), *(after for _, after in sides))
    return replace(own, padding=padding, dilation=dilation)


def _by_letter(layout: str, values: tuple[T, ...], default: T) -> Mapping[str, T] | None:
    """What belongs to each dim of `layout` behind the batch, which comes first: `values`, then `default`s."""
    if layout[0] != "N" or len(values) >= len(layout):
        return None
    rest = (default,) * (len(layout) - 1 - len(values))
    return dict(zip(layout[1:], (*values, *rest), strict=True))
