"""Convolutions of the same images, side by side, become one of all their filters.

(nn.conv2d(%x, %w1), nn.conv2d(%x, %w2))
    =>
%0 = nn.conv2d(%x, concatenate((%w1, %w2)));
(strided_slice(%0, …), strided_slice(%0, …))
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ir.layout import is_blocked
from legato.ops.conv import conv2d
from legato.transform._parallel import Concatenate, total, weight_type

__all__ = ["CombineConv2D"]


@dataclass(frozen=True, slots=True)
class CombineConv2D(Concatenate):
    """Typed module → typed module. Convolutions in groups, and of channels in blocks, stay."""

    name = "combine-conv2d"

    def key(self, call: Call) -> Hashable | None:
        """Everything but the number of filters."""
        weight = weight_type(call, conv2d)
        a = call.attrs
        if weight is None or a.groups != 1 or any(map(is_blocked, (a.data_layout, a.kernel_layout, a.out_layout))):
            return None
        filters = call.attrs.kernel_layout.index("O")
        shape = weight.shape[:filters], weight.shape[filters + 1 :]
        return replace(call.attrs, channels=None, kernel_size=None, finite_weight=False), shape, weight.dtype

    def whole(self, b: Builder, calls: Sequence[Call]) -> Expr:
        """One convolution of all filters."""
        attrs = calls[0].attrs
        weight = b.op("concatenate")([c.args[1] for c in calls], axis=attrs.kernel_layout.index("O"))
        is_finite = all(c.attrs.finite_weight for c in calls)
        attrs = replace(attrs, channels=total(calls, self.last(calls[0])), finite_weight=is_finite)
        return b.call_op(conv2d, (calls[0].args[0], weight), attrs)

    def last(self, first: Call) -> int:
        """The dim of channels."""
        layout: str = first.attrs.out_layout or first.attrs.data_layout
        return 4 - layout.index("C")
