"""Gradient rules of products with sparse matrices, by the operators of `sparse_grad`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from legato.arith.expr import const
from legato.infer.builder import Builder
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ops._gradients import Contribution, dtype_of, extents, in_shape, shape_of
from legato.ops._rules import product

__all__ = ["conv_grad", "dense_grad"]


def dense_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """The rule of nn.sparse_dense."""
    data, values, *matrix = call.args
    return [*_both(b, dy, data, values, matrix, call.attrs.sparse_lhs), None, None]


def _both(
    b: Builder, dy: Node, data: Node, values: Node, matrix: Sequence[Node], sparse_lhs: bool = False
) -> list[Node]:
    """What flows to the data and to the blocks."""
    (columns,) = extents(shape_of(data)[1:])
    return [
        b.nn.sparse_dense_data_grad(dy, values, *matrix, columns=columns, sparse_lhs=sparse_lhs),
        b.nn.sparse_dense_values_grad(dy, data, *matrix, shape=extents(shape_of(values)), sparse_lhs=sparse_lhs),
    ]


def conv_grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """The rule of nn.sparse_conv2d: that of a product with the matrix of windows."""
    (data, values, *matrix), a = call.args, call.attrs
    is_last = a.layout == "NHWC"
    x, g = (v if is_last else b.transpose(v, axes=(0, 2, 3, 1)) for v in (data, dy))
    *pixels, channels = shape_of(x)
    taps, zero = math.prod(a.kernel_size), b.constant(0.0, dtype_of(x))
    shifts = [(p - a.kernel_size[0] // 2, q - a.kernel_size[1] // 2)
              for p in range(a.kernel_size[0]) for q in range(a.kernel_size[1])]  # fmt: skip

    def moved(v: Node, p: int, q: int) -> Node:
        return v if p == q == 0 else b.nn.pad(v, zero, pad_width=((0, 0), (p, -p), (q, -q), (0, 0)))

    axis = 3 if is_last else 4
    windows = b.stack([moved(x, -p, -q) for p, q in shifts], axis=axis)
    found, dv = _both(
        b,
        in_shape(b, g, (product(pixels), shape_of(g)[-1])),
        in_shape(b, windows, (product(pixels), channels * taps)),
        in_shape(b, values, (*shape_of(values), const(1))) if len(shape_of(values)) == 2 else values,
        matrix,
    )
    parts = b.split(in_shape(b, found, shape_of(windows)), indices_or_sections=taps, axis=axis)
    total: Node | None = None
    for n, (p, q) in enumerate(shifts):
        part = moved(b.squeeze(b.get(parts, n), axis=axis), p, q)
        total = part if total is None else b.add(total, part)
    assert total is not None
    return [total if is_last else b.transpose(total, axes=(0, 3, 1, 2)), in_shape(b, dv, shape_of(values)), None, None]
