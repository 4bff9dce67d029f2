"""one_hot: a dimension that marks one position."""

from __future__ import annotations

import numpy as np

from legato.arith.expr import Expr, const, eq, select
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._gradients import Contribution, dtype_of, narrowed
from legato.ops._rules import INT, at_least, normalize_axis, require_dtype, require_rank, same_dtype, tensor
from legato.ops._tensors import Array, DtypeName, as_int, result_dtype
from legato.te.tensor import Tensor, compute
from legato.tir.expr import cast

__all__ = ["OneHotAttrs", "one_hot"]


@dataclass(frozen=True, slots=True)
class OneHotAttrs(Attrs):
    """`depth`: the extent of the new dimension; `axis`: where it is inserted; `dtype`: that of the result ("": that of
    the values).
    """

    depth: int | Dim = 1
    axis: int = -1
    dtype: DtypeName = ""


def _depth(a: OneHotAttrs) -> Dim:
    return const(a.depth) if isinstance(a.depth, int) else a.depth


def _relation(rel: Relation, indices: Type, on: Type, off: Type, a: OneHotAttrs) -> Type:
    i, high, low = tensor(rel, indices, "indices"), tensor(rel, on, "on_value"), tensor(rel, off, "off_value")
    require_dtype(rel, i, INT, "indices")
    require_rank(rel, high, 0, what="on_value")
    require_rank(rel, low, 0, what="off_value")
    axis = normalize_axis(rel, a.axis, i.rank + 1)
    if isinstance(a.depth, int) and a.depth < 0:
        raise rel.fail(f"depth must not be negative, got {a.depth}")
    at_least(rel, _depth(a), 0, "depth")
    dtype = result_dtype(a.dtype, same_dtype(rel, high, low))
    return TensorType((*i.shape[:axis], _depth(a), *i.shape[axis:]), dtype)


def _reference(indices: Array, on: Array, off: Array, a: OneHotAttrs) -> Array:
    axis = a.axis % (indices.ndim + 1)
    dtype = result_dtype(a.dtype, dt.dtype(on.dtype)).numpy
    steps = np.arange(as_int(_depth(a))).reshape([-1 if d == axis else 1 for d in range(indices.ndim + 1)])
    return np.where(np.expand_dims(indices, axis) == steps, on.astype(dtype), off.astype(dtype))


def _compute(indices: Tensor, on: Tensor, off: Tensor, a: OneHotAttrs, out: TensorType) -> Tensor:
    axis = a.axis % out.rank

    def element(*i: Expr) -> Expr:
        here = eq(cast(indices[(*i[:axis], *i[axis + 1 :])], dt.index), i[axis])
        return select(here, cast(on[()], out.dtype), cast(off[()], out.dtype))

    return compute(out.shape, element, "one_hot")


def _grad(b: Builder, call: Call, dy: Node) -> list[Contribution]:
    """The sums of `dy` where each of the two values stands."""
    indices, on, _ = call.args
    one, zero = (b.constant(v, dtype_of(dy)) for v in (1.0, 0.0))
    attrs = {"depth": call.attrs.depth, "axis": call.attrs.axis}
    found = [b.sum(b.multiply(dy, b.one_hot(indices, *pair, **attrs))) for pair in ((one, zero), (zero, one))]
    return [None, *(narrowed(b, g, on) for g in found)]


_ON, _OFF = np.array(5.0, np.float32), np.array(-1.0, np.float32)

one_hot = Op(
    name="one_hot",
    args=("indices", "on_value", "off_value"),
    attrs=OneHotAttrs,
    type_rel=_relation,
    reference=_reference,
    compute=_compute,
    grad=_grad,
    fusion=Fusion.INJECTIVE,
    samples=(
        Sample((np.array([0, 2, -1, 7], np.int32), _ON, _OFF), {"depth": 3}, exact=True),
        Sample((np.zeros((2, 0), np.int64), _ON, _OFF), {"depth": 0, "axis": 1}, exact=True),
        Sample((np.array([[1], [0]], np.int64), _ON, _OFF), {"depth": 2, "axis": 0, "dtype": "int32"}, exact=True),
    ),
    doc="""`on_value` where the position along the new dimension `axis` equals the index, `off_value` elsewhere.

An index outside [0, depth) marks nothing.""",
)
