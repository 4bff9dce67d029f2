"""Gradients of convolutions: a convolution, a transposed one and the gradient of the weight are each other's.

Each of the three maps two of (data x, weight w, grad dy) to the third; the attributes are those of the convolution.
Weights are multiplied by zeros where there is no data, also those that are infinite: there gradients are NaN, as what
the convolution gives is none that anybody would differentiate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from legato.arith.expr import const, ge
from legato.arith.prove import prove, prove_equal
from legato.arith.simplify import simplify
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr
from legato.ir.types import Dim
from legato.ops._gradients import Contribution, dtype_of, extents, shape_of
from legato.ops._tensors import known_int
from legato.ops._window import DimOrder, Window, dim_order, pads, spatial_letters, spread, window_rank

__all__ = ["conv_gradient", "conv_transpose_gradient", "data_gradient", "of_convolution", "weight_gradient"]

_TURNED: Final = str.maketrans("OIoi", "IOio")


def conv_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of a convolution."""
    data, weight = call.args
    return [data_gradient(b, call.attrs, dy, weight, data), weight_gradient(b, call.attrs, dy, data, weight)]


def conv_transpose_gradient(b: Builder, call: Call, dy: Expr) -> list[Contribution]:
    """The rule of a transposed convolution: of the convolution whose data `dy` is and whose result the data is."""
    data, weight = call.args
    if any(known_int(n) == 0 for n in shape_of(data)):
        return [b.zeros_like(data), b.zeros_like(weight)]
    a = _Turned(call.attrs, data)
    return [of_convolution(b, a, dy, weight, data), weight_gradient(b, a, data, dy, weight)]


class _Turned:
    """The attributes of the convolution of which a transposed one of `data` is the gradient.

    Without any elements in the data there need not be room for a window of that convolution: where that may be when the
    program runs, there is more padding behind.
    """

    def __init__(self, a: Any, data: Expr) -> None:
        self.strides, self.dilation, self.groups = a.strides, a.dilation, a.groups
        self.data_layout, self.grad_layout = a.out_layout or a.data_layout, a.data_layout
        self.kernel_layout = a.kernel_layout.translate(_TURNED)
        rank = window_rank(a.data_layout)
        along = zip(_order(a.data_layout, "NC").extents(shape_of(data))[2:], spread(a.strides, rank), strict=True)
        room = [0 if prove(ge(n, const(1))) else stride for n, stride in along]
        befores, afters = zip(*pads(a.padding, rank), strict=True)
        self.padding = (*befores, *(after + more for after, more in zip(afters, room, strict=True)))


def _grad_layout(a: Any) -> str:
    return str(getattr(a, "grad_layout", "") or getattr(a, "out_layout", "") or a.data_layout)


def _common(a: Any) -> dict[str, Any]:
    return {"strides": a.strides, "padding": a.padding, "dilation": a.dilation, "groups": a.groups}


def of_convolution(b: Builder, a: Any, data: Expr, weight: Expr, like: Expr) -> Expr:
    """The convolution of `data` as far as `like`, its result, goes."""
    rank = window_rank(a.data_layout)
    conv = b.op(f"nn.conv{rank}d")
    y = conv(data, weight, **_common(a), data_layout=a.data_layout, kernel_layout=a.kernel_layout,
             out_layout=_grad_layout(a), out_dtype=dtype_of(like))  # fmt: skip
    return _cut(b, y, like, _order(_grad_layout(a), "NC"))


def data_gradient(b: Builder, a: Any, grad: Expr, weight: Expr, like: Expr) -> Expr:
    """The gradient with respect to the data, which is `like`."""
    rank = window_rank(a.data_layout)
    order, grad_order = _order(a.data_layout, "NC"), _order(_grad_layout(a), "NC")
    kernel = _order(a.kernel_layout, "OI").extents(shape_of(weight))[2:]
    spatial, outs = order.extents(shape_of(like))[2:], grad_order.extents(shape_of(grad))[2:]
    steps = zip(spread(a.strides, rank), spread(a.dilation, rank), pads(a.padding, rank), strict=True)
    along = [Window(n, k, s, d, *sides) for n, k, (s, d, sides) in zip(spatial, kernel, steps, strict=True)]
    counts = list(zip(along, outs, strict=True))
    left, padding, finish = [_left(w, m) for w, m in counts], a.padding, _cut
    if None in left and not all(prove_equal(w.count, m) for w, m in counts):
        # Any number of elements may be behind the windows, of those too that padding stands behind when all fit; and
        # there may be no window, of which the result would have fewer elements than none.
        left = [w.stride - 1 + w.before for w in along]
        padding, finish = (*(w.before for w in along), *(0 for _ in along)), _lengthened
    extra = tuple(w.stride - 1 if n is None else n for n, w in zip(left, along, strict=True))
    transposed = b.op(f"nn.conv{rank}d_transpose")
    x = transposed(grad, weight, **{**_common(a), "padding": padding}, output_padding=extra,
                   data_layout=_grad_layout(a), kernel_layout=a.kernel_layout.translate(_TURNED),
                   out_layout=a.data_layout, out_dtype=dtype_of(like), finite_weight=True)  # fmt: skip
    return finish(b, x, like, order)


def _left(w: Window, count: Dim) -> int | None:
    """How many elements of the padded data are behind `count` windows, where that is known."""
    return known_int(w.extent + (w.before + w.after) - (count - 1) * w.stride - w.reach)


def weight_gradient(b: Builder, a: Any, grad: Expr, data: Expr, like: Expr) -> Expr:
    """The gradient with respect to the weight, which is `like`."""
    kernel = _order(a.kernel_layout, "OI").extents(shape_of(like))[2:]
    backward = b.op(f"nn.conv{window_rank(a.data_layout)}d_backward_weight")
    return backward(grad, data, **_common(a), kernel_size=extents(kernel), grad_layout=_grad_layout(a),
                    data_layout=a.data_layout, kernel_layout=a.kernel_layout, out_dtype=dtype_of(like))  # fmt: skip


def _order(layout: str, channels: str) -> DimOrder:
    order = dim_order(layout, channels + spatial_letters(window_rank(layout)))
    assert order is not None
    return order


def _cut(b: Builder, x: Expr, like: Expr, order: DimOrder) -> Expr:
    """`x` without what it has behind the extents of `like` in space."""
    shape, wanted = shape_of(x), shape_of(like)
    axes = [d for d in order.at[2:] if not prove_equal(shape[d], wanted[d])]
    if not axes:
        return x
    ends: Sequence[Dim] = [wanted[d] for d in axes]
    return b.strided_slice(x, begin=(0,) * len(axes), end=extents(ends), axes=tuple(axes))


def _lengthened(b: Builder, x: Expr, like: Expr, order: DimOrder) -> Expr:
    """`x` with zeros up to the extents of `like` in space, of which it may have more or fewer."""
    pairs = zip(shape_of(x), shape_of(like), strict=True)
    widths = extents(simplify(m - n) if d in order.at[2:] else const(0) for d, (n, m) in enumerate(pairs))
    return b.nn.pad(x, 0, pad_width=tuple((0, w) for w in widths)) if any(w != 0 for w in widths) else x
