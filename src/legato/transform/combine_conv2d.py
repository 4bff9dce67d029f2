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
from legato.ops.conv import conv2d
from legato.transform._parallel import CombineParallel, slices, weight_type

__all__ = ["CombineConv2D"]


@dataclass(frozen=True, slots=True)
class CombineConv2D(CombineParallel):
    """Typed module → typed module. Convolutions in groups stay."""

    name = "combine-conv2d"

    def key(self, call: Call) -> Hashable | None:
        """Everything but the number of filters."""
        weight = weight_type(call, conv2d)
        if weight is None or call.attrs.groups != 1:
            return None
        filters = call.attrs.kernel_layout.index("O")
        shape = weight.shape[:filters], weight.shape[filters + 1 :]
        return replace(call.attrs, channels=None, kernel_size=None, finite_weight=False), shape, weight.dtype

    def combined(self, calls: Sequence[Call]) -> Sequence[Expr]:
        """Slices of the channels of one convolution."""
        b, attrs = Builder(span=calls[0].span), calls[0].attrs
        weight = b.op("concatenate")([c.args[1] for c in calls], axis=attrs.kernel_layout.index("O"))
        is_finite = all(c.attrs.finite_weight for c in calls)
        channels = [c.attrs.channels for c in calls]
        total = None if None in channels else sum(channels)
        whole = b.call_op(conv2d, (calls[0].args[0], weight), replace(attrs, channels=total, finite_weight=is_finite))
        return slices(b, whole, (attrs.out_layout or attrs.data_layout).index("C"), calls)
