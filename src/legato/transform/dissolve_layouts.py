"""Layouts in blocks as those without: loops decide how images lie in memory.

    nn.relu(nn.contrib_conv2d_NCHWc(layout_transform(%x, src_layout="NCHW", dst_layout="NCHW16c"), %w))
        =>
    layout_transform(nn.relu(nn.conv2d(%x, …)), src_layout="NCHW", dst_layout="NCHW16c")

What is between such operators follows, so that transforms between layouts are left at the ends, or cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final

from legato.base.dataclass import dataclass
from legato.ir.contents import body_nodes
from legato.ir.expr import Call, Expr, Function
from legato.ir.layout import is_blocked, layout
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ops.conv import Conv2DAttrs, contrib_conv2d_NCHWc, contrib_depthwise_conv2d_NCHWc, conv2d
from legato.ops.linalg import DenseAttrs, contrib_dense_pack, dense
from legato.transform._layout import LAYOUTS, Relayout
from legato.transform._layout_rules import RULES
from legato.transform.pass_ import FunctionPass

__all__ = ["DissolveLayouts"]

_CONTRIB: Final = (contrib_conv2d_NCHWc, contrib_depthwise_conv2d_NCHWc)


@dataclass(frozen=True, slots=True)
class DissolveLayouts(FunctionPass):
    """Typed module → typed module in graph form; operators of blocked layouts stay where nothing else fits."""

    name = "dissolve-layouts"
    rounds = True

    def function(self, func: Function, mod: Module) -> Function:
        if not any(isinstance(node, Call) and _blocked(node) for node in body_nodes(func)):
            return func
        body = Relayout(_whole, {}).rewritten(func.body)
        return func if body is func.body else replace(func, body=body)


def _blocked(call: Call) -> list[str]:
    """The attributes of a call that are layouts in blocks."""
    if not isinstance(call.op, Op) or call.op.name not in RULES or call.attrs is None:
        return []
    return [name for name in LAYOUTS if hasattr(call.attrs, name) and is_blocked(getattr(call.attrs, name))]


def _whole(call: Call, params: Sequence[Expr]) -> Expr | None:
    """The call with layouts whose axes are whole; None where they are."""
    names = _blocked(call)
    if not names:
        return None
    attrs = replace(call.attrs, **{name: layout(getattr(call.attrs, name)).letters for name in names})
    if call.op in _CONTRIB:
        return Call(conv2d, tuple(params), _plain(attrs), span=call.span)
    if call.op is contrib_dense_pack and attrs.weight_layout == "NC":
        return Call(dense, tuple(params), DenseAttrs(attrs.units, attrs.out_dtype), span=call.span)
    return Call(call.op, tuple(params), attrs, span=call.span)


def _plain(attrs: Any) -> Conv2DAttrs:
    """The attributes of a convolution of blocks as those of nn.conv2d."""
    return Conv2DAttrs(**{f.name: getattr(attrs, f.name) for f in fields(Conv2DAttrs)})
