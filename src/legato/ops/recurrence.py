"""Linear recurrences along one axis, and their transposes: what the gradients of running products are made of.

    h[i] = x[i] + a[i]·h[i − 1]             transposed:   h[i] = x[i] + a[i + 1]·h[i + 1]

Both are linear in `x`, by matrices of which one is the transpose of the other.
"""

from __future__ import annotations

import numpy as np

import legato.te.math as te
from legato.arith.expr import Var, const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call, Expr
from legato.ir.op import Fusion, Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import Array, quiet
from legato.ops._gradients import shifted
from legato.ops._rules import FLOAT, normalize_axis, require_dtype, same_dtype, same_shape, tensor
from legato.ops._tensors import accumulator, wide
from legato.te.tensor import Tensor, loops
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.stmt import Alloc, For, Stmt, Store, block

__all__ = ["RecurrenceAttrs", "linear_recurrence"]


@dataclass(frozen=True, slots=True)
class RecurrenceAttrs(Attrs):
    """`axis`: that of the steps; `transposed`: the recurrence is the transposed one, which goes backwards."""

    axis: int = -1
    transposed: bool = False


def _type(relation: Relation, factors: Type, data: Type, attrs: RecurrenceAttrs) -> Type:
    a, x = tensor(relation, factors, "factors"), tensor(relation, data, "data")
    require_dtype(relation, x, FLOAT, "data")
    normalize_axis(relation, attrs.axis, x.rank)
    return TensorType(same_shape(relation, a.shape, x.shape, "the factors"), same_dtype(relation, a, x))


def _reference(factors: Array, data: Array, attrs: RecurrenceAttrs) -> Array:
    a, x = (np.moveaxis(wide(v), attrs.axis, 0) for v in (factors, data))
    out, state = np.empty_like(x), np.zeros_like(x[:1].sum(0))
    for i in reversed(range(len(x))) if attrs.transposed else range(len(x)):
        out[i] = x[i] + state if attrs.transposed else x[i] + a[i] * state
        state = a[i] * out[i] if attrs.transposed else out[i]
    return np.ascontiguousarray(np.moveaxis(out, 0, attrs.axis)).astype(data.dtype)


def _compute(factors: Tensor, data: Tensor, attrs: RecurrenceAttrs, out_type: TensorType) -> Tensor:
    axis = attrs.axis % len(data.shape)
    (out,) = loops(
        [(out_type.shape, out_type.dtype)],
        [factors, data],
        lambda out: _nest(factors, data, out, axis, attrs.transposed),
        "recurrence",
    )
    return out


def _nest(factors: Tensor, data: Tensor, out: Tensor, axis: int, transposed: bool) -> Stmt:
    """For every line along `axis`: what the next element takes of the one before goes from element to element."""
    index = [Var(f"i{n}", dt.index, 0) for n in range(len(data.shape))]
    dtype, zero = accumulator(out.dtype), (const(0),)
    state = Buffer("state", (const(1),), dtype, scope=Scope.LOCAL)
    step = index[axis]
    place = data.shape[axis] - 1 - step if transposed else step
    at = tuple(place if n == axis else i for n, i in enumerate(index))
    a, x, before = te.cast(factors[at], dtype), te.cast(data[at], dtype), Load(state, zero)
    emit = Store(out, at, te.cast(before, out.dtype))
    if transposed:
        line = block(Store(state, zero, x + before), emit, Store(state, zero, a * before))
    else:
        line = block(Store(state, zero, x + a * before), emit)
    body: Stmt = Alloc(state, block(Store(state, zero, te.literal(0, dtype)), For(step, data.shape[axis], line)))
    for n in reversed(range(len(index))):
        if n != axis:
            body = For(index[n], data.shape[n], body)
    return body


def _gradient(b: Builder, call: Call, dy: Expr) -> list[Expr]:
    """By the other recurrence: what it gives is added by each step, and multiplied by the neighbour is the factor's."""
    (factors, _), attrs = call.args, call.attrs
    back = b.linear_recurrence(factors, dy, axis=attrs.axis, transposed=not attrs.transposed)
    left, right = (call, back) if attrs.transposed else (back, call)
    return [b.multiply(left, shifted(b, right, attrs.axis)), back]


_LINE = ((6,), "float64")
_PAIR = ((2, 3), "float32")

linear_recurrence = Op(
    name="linear_recurrence",
    args=("factors", "data"),
    attrs=RecurrenceAttrs,
    type_rel=_type,
    reference=quiet(_reference),
    compute=_compute,
    grad=_gradient,
    fusion=Fusion.OPAQUE,
    samples=(
        Sample((_LINE, _LINE)),
        Sample((_LINE, _LINE), {"transposed": True}),
        Sample((_PAIR, _PAIR), {"axis": 0}),
        Sample((((2, 3, 2), "float32"), ((2, 3, 2), "float32")), {"axis": 1, "transposed": True}),
        Sample((((5,), "float16"), ((5,), "float16")), rtol=2e-3),
        Sample((((2, 0), "float32"), ((2, 0), "float32"))),
        Sample((((0, 2), "float32"), ((0, 2), "float32")), {"transposed": True}),
    ),
    doc="""h[i] = data[i] + factors[i]·h[i − 1] along `axis`, in order; h[−1] is 0.

`transposed` goes backwards: h[i] = data[i] + factors[i + 1]·h[i + 1]. 16-bit floats are accumulated in float32.""",
)
