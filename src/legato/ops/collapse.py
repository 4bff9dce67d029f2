"""Sums over what broadcasting has repeated: the transpose of `broadcast_to`.

collapse_sum_to(x: (5, n, 3), shape=(m, 3))      =>      (m, 3): x summed over its first axis, and over n where m is 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, const, eq, select
from legato.arith.prove import prove_equal
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._dtypes import wide_numpy
from legato.ops._families import Array, elementwise, quiet
from legato.ops._gradients import extents, shape_of
from legato.ops._moving import as_dim, as_int
from legato.ops._rules import NUMBER, at_least, is_one, product, require_dtype, stretch, tensor
from legato.ops._tensors import accumulator, tensor_bytes
from legato.te.tensor import Tensor, reduce

__all__ = ["CollapseSumAttrs"]


@dataclass(frozen=True, slots=True)
class CollapseSumAttrs(Attrs):
    """The shape to sum to."""

    shape: tuple[Dim | int, ...]


def _type(relation: Relation, x: Type, attrs: CollapseSumAttrs) -> Type:
    ty, shape = tensor(relation, x, "data"), dims(attrs.shape)
    require_dtype(relation, ty, NUMBER, "data")
    extra = ty.rank - len(shape)
    if extra < 0:
        raise relation.fail(f"data of rank {ty.rank} cannot be summed to rank {len(shape)}")
    for n, d in enumerate(shape):
        stretch(relation, d, ty.shape[extra + n], f"collapsed dim {n}")
        at_least(relation, d, 0, f"dim {n} of the shape")
    return TensorType(shape, ty.dtype)


def _reference(x: Array, attrs: CollapseSumAttrs) -> Array:
    shape = [as_int(as_dim(d)) for d in attrs.shape]
    extra = x.ndim - len(shape)
    repeated = [extra + n for n, d in enumerate(shape) if d != x.shape[extra + n]]
    total = np.sum(x, axis=(*range(extra), *repeated), keepdims=True, dtype=wide_numpy(x))
    return np.asarray(total).reshape(shape).astype(x.dtype)


def _compute(x: Tensor, attrs: CollapseSumAttrs, out_type: TensorType) -> Tensor:
    """An axis whose extent in the result is 1 or that of `x`, nobody knows which, is summed over x's extent or over
    1: one of the two subscripts is 0, and the element is at their sum."""
    out, dtype = out_type.shape, accumulator(x.dtype)
    extra = len(x.shape) - len(out)
    over = {n: x.shape[n] for n in range(extra)}
    for n, (whole, d) in enumerate(zip(x.shape[extra:], out, strict=True), extra):
        if not prove_equal(whole, d):
            over[n] = whole if is_one(d) else select(eq(d, 1), whole, const(1))

    def element(*index: Expr) -> Expr:
        kept, summed = dict(enumerate(index[: len(out)], extra)), dict(zip(over, index[len(out) :], strict=True))
        of = {n: i for n, i in kept.items() if not (n in summed and is_one(out[n - extra]))}
        at = ([i for i in (of.get(n), summed.get(n)) if i is not None] for n in range(len(x.shape)))
        return te.cast(x[tuple(sum(i[1:], start=i[0]) for i in at)], dtype)

    total = reduce("sum", out, tuple(over.values()), element, "sum")
    return total if dtype == x.dtype else elementwise(total, lambda v: te.cast(v, x.dtype))


def _cost(args: Sequence[TensorType], out: Type, attrs: Any) -> Cost:
    return Cost(product(args[0].shape), tensor_bytes((args[0], out)))


collapse_sum_to = Op(
    name="collapse_sum_to",
    args=("data",),
    attrs=CollapseSumAttrs,
    type_rel=_type,
    reference=quiet(_reference),
    compute=_compute,
    grad=lambda b, call, dy: [b.broadcast_to(dy, shape=extents(shape_of(call.args[0])))],
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=(
        Sample((((2, 3, 4), "float32"),), {"shape": (3, 1)}),
        Sample((((2, 3), "float32"),), {"shape": (2, 3)}, exact=True),
        Sample((((3, 1, 2), "float64"),), {"shape": (1, 2)}),
        Sample((((2, 3), "float32"),), {"shape": ()}),
        Sample((((40, 3), "float16"),), {"shape": (3,)}),
        Sample((((0, 3), "float32"),), {"shape": (1, 3)}, exact=True),
        Sample((np.array([[100, 100], [-128, -1]], np.int8),), {"shape": (2, 1)}, exact=True),
    ),
    doc="Sums over the axes that broadcasting from `shape` would have made or stretched.",
)
