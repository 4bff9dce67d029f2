"""softmax and its logarithm along one dimension, as stages: maximum, exponentials, sum, quotient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._families import quiet
from legato.ops._rules import FLOAT, normalize_axis, require_dtype, tensor
from legato.ops._tensors import Array, accumulator, product, tensor_bytes, wide
from legato.ops.fast import EXP
from legato.te.tensor import Tensor, compute, reduce
from legato.tir.expr import cast

__all__ = ["SoftmaxAttrs", "fast_softmax", "log_softmax", "softmax"]


@dataclass(frozen=True, slots=True)
class SoftmaxAttrs(Attrs):
    """The dimension whose elements sum to 1."""

    axis: int = -1


def _relation(rel: Relation, data: Type, a: SoftmaxAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    normalize_axis(rel, a.axis, ty.rank)
    return ty


def _shifted(data: Array, axis: int) -> Array:
    x = wide(data)
    return np.asarray(x - x.max(axis=axis, keepdims=True)) if x.size else x


def _softmax_reference(data: Array, a: SoftmaxAttrs, exp: Callable[[Array], Array] = np.exp) -> Array:
    e = exp(_shifted(data, a.axis))
    return np.asarray(e / e.sum(axis=a.axis, keepdims=True)).astype(data.dtype)


def _log_softmax_reference(data: Array, a: SoftmaxAttrs) -> Array:
    shifted = _shifted(data, a.axis)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=a.axis, keepdims=True))).astype(data.dtype)


class _Rows:
    """Subscripts of a tensor and of its reductions along one dimension."""

    def __init__(self, x: Tensor, axis: int) -> None:
        self.x, self.axis = x, axis % x.rank
        self.outer = (*x.shape[: self.axis], *x.shape[self.axis + 1 :])

    def full(self, outer: Sequence[Expr], r: Expr) -> tuple[Expr, ...]:
        """Subscripts of element `r` of a row."""
        return (*outer[: self.axis], r, *outer[self.axis :])

    def row(self, index: Sequence[Expr]) -> tuple[Expr, ...]:
        """Subscripts of the row that holds element `index`."""
        return (*index[: self.axis], *index[self.axis + 1 :])

    def reduced(self, combiner: str, t: Tensor, name: str) -> Tensor:
        """`t` (of the same shape) reduced along the dimension."""
        extent = (self.x.shape[self.axis],)
        return reduce(combiner, self.outer, extent, lambda *i: t[self.full(i[:-1], i[-1])], name)


def _stages(x: Tensor, a: SoftmaxAttrs, exp: Callable[[Expr], Expr] = te.exp) -> tuple[_Rows, Tensor, Tensor, Tensor]:
    """The rows, x − max, its exponentials and their sums."""
    rows, acc = _Rows(x, a.axis), accumulator(x.dtype)
    top = rows.reduced("max", x, "max")
    shifted = compute(x.shape, lambda *i: cast(x[i], acc) - cast(top[rows.row(i)], acc), "shifted")
    powers = compute(x.shape, lambda *i: exp(shifted[i]), "exp")
    return rows, shifted, powers, rows.reduced("sum", powers, "sum")


def _softmax_compute(x: Tensor, a: SoftmaxAttrs, out: TensorType, exp: Callable[[Expr], Expr] = te.exp) -> Tensor:
    rows, _, powers, total = _stages(x, a, exp)
    return compute(x.shape, lambda *i: cast(powers[i] / total[rows.row(i)], out.dtype), "softmax")


def _log_softmax_compute(x: Tensor, a: SoftmaxAttrs, out: TensorType) -> Tensor:
    rows, shifted, _, total = _stages(x, a)
    logs = compute(total.shape, lambda *i: te.log(total[i]), "log")
    return compute(x.shape, lambda *i: cast(shifted[i] - logs[rows.row(i)], out.dtype), "log_softmax")


def _cost(args: Sequence[TensorType], out: Type, a: SoftmaxAttrs) -> Cost:
    return Cost(product(args[0].shape) * 12, tensor_bytes((*args, out)))


def _gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    """y·(dy − Σ dy·y)."""
    along = b.sum(b.multiply(dy, call), axis=(call.attrs.axis,), keepdims=True)
    return [b.multiply(b.subtract(dy, along), call)]


def _log_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    """dy − softmax·Σ dy."""
    total = b.sum(dy, axis=(call.attrs.axis,), keepdims=True)
    return [b.subtract(dy, b.multiply(b.exp(call), total))]


_EDGES = np.array([[np.nan, 0, 1], [np.inf, 0, 1], [-np.inf, 0, 1], [-np.inf] * 3, [1e30, -1e30, 88]], np.float32)
_SAMPLES = (
    Sample((((2, 5), "float32"),)),
    Sample((((2, 3, 4), "float32"),), {"axis": 1}),
    Sample((_EDGES,)),
    Sample((((3, 4), "float16"),), {"axis": 0}, rtol=2e-3),
    Sample((((4,), "float64"),)),
    Sample((((0, 3), "float32"),)),
)
_FAST_SAMPLES = tuple(replace(s, rtol=max(s.rtol, 1e-4)) for s in _SAMPLES)

softmax = Op(
    name="nn.softmax",
    args=("data",),
    attrs=SoftmaxAttrs,
    type_rel=_relation,
    reference=quiet(_softmax_reference),
    compute=_softmax_compute,
    grad=_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=_SAMPLES,
    doc="exp(x − max) / Σ exp(x − max) along `axis`; NaN for a row that holds NaN or +∞, or nothing but −∞.",
)

fast_softmax = Op(
    name="nn.fast_softmax",
    args=("data",),
    attrs=SoftmaxAttrs,
    type_rel=_relation,
    reference=quiet(partial(_softmax_reference, exp=EXP.reference)),
    compute=partial(_softmax_compute, exp=EXP.scalar),
    grad=_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=_FAST_SAMPLES,
    doc="softmax by fast_exp: with a relative error below 2e-4; what would be less than e^-87 of the largest is that.",
)

log_softmax = Op(
    name="nn.log_softmax",
    args=("data",),
    attrs=SoftmaxAttrs,
    type_rel=_relation,
    reference=quiet(_log_softmax_reference),
    compute=_log_softmax_compute,
    grad=_log_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=_SAMPLES,
    doc="x − max − log Σ exp(x − max) along `axis`: the logarithm of softmax.",
)
