"""Normalisation by given statistics (batch) or by sums of squares (L2, local response)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce as reduce_

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, const, eq, ge, land, lt, max_, select
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._families import EDGES, quiet
from legato.ops._gradients import extents, narrowed, only, shape_of, widened
from legato.ops._norm_gradients import batch_norm_gradient
from legato.ops._normalise import compute_dtype, numpy_dtype, over_axes, parameter, sum_over, vector_shape
from legato.ops._rules import FLOAT, normalize_axes, normalize_axis, require_dtype, tensor
from legato.ops._tensors import Array, accumulator, cast_to, product, tensor_bytes, wide
from legato.te.tensor import Tensor, compute, reduce
from legato.tir.expr import cast

__all__ = ["BatchNormAttrs", "L2NormalizeAttrs", "LRNAttrs", "batch_norm", "l2_normalize", "lrn",
           "scale_and_shift"]  # fmt: skip


# ------------------------------------------------------------------------------- batch


@dataclass(frozen=True, slots=True)
class BatchNormAttrs(Attrs):
    """`axis`: the channels; `epsilon`: what is added to the variance; `center`, `scale`: whether beta, gamma are
    applied.
    """

    axis: int = 1
    epsilon: float = 1e-5
    center: bool = True
    scale: bool = True


def _batch_relation(
    rel: Relation, data: Type, gamma: Type, beta: Type, mean: Type, variance: Type, a: BatchNormAttrs
) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    axis = normalize_axis(rel, a.axis, ty.rank)
    shape = (ty.shape[axis],)
    for name, arg in (("gamma", gamma), ("beta", beta), ("moving_mean", mean), ("moving_var", variance)):
        parameter(rel, arg, shape, ty, name)
    kept = [TensorType(shape, p.dtype if isinstance(p, TensorType) else ty.dtype) for p in (mean, variance)]
    return TupleType((ty, *kept))


def scale_and_shift(gamma: Array, beta: Array, mean: Array, variance: Array, a: BatchNormAttrs) -> tuple[Array, Array]:
    """s and t of batch_norm = s·x + t, for parameters of one dtype. A mean of 0 shifts by beta alone, also where s is
    infinite."""
    scale = np.asarray(gamma.dtype.type(1) / np.sqrt(variance + gamma.dtype.type(a.epsilon)))
    scale = np.asarray(scale * gamma) if a.scale else scale
    offset = beta if a.center else np.zeros_like(beta)
    return scale, np.where(mean == 0, offset, offset - mean * scale)


def _batch_reference(
    data: Array, gamma: Array, beta: Array, mean: Array, variance: Array, a: BatchNormAttrs
) -> tuple[Array, Array, Array]:
    dtype = numpy_dtype(data, gamma, beta, mean, variance)
    x, g, b, m, v = (cast_to(p, dtype) for p in (data, gamma, beta, mean, variance))
    scale, shift = scale_and_shift(g, b, m, v, a)
    shape = vector_shape(x, a.axis)
    y = x * scale.reshape(shape) + shift.reshape(shape)
    return np.asarray(y).astype(data.dtype), mean.copy(), variance.copy()


def _batch_compute(
    x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, a: BatchNormAttrs, out: TupleType
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = compute_dtype(*(t.dtype for t in (x, gamma, beta, mean, variance)))

    def factor(c: Expr) -> Expr:
        root = te.rsqrt(cast(variance[c], dtype) + a.epsilon)
        return root * cast(gamma[c], dtype) if a.scale else root

    scale = compute(gamma.shape, factor, "scale")

    def term(c: Expr) -> Expr:
        middle, offset = cast(mean[c], dtype), cast(beta[c], dtype) if a.center else const(0, dtype)
        return select(eq(middle, const(0, dtype)), offset, offset - middle * scale[c])

    shift = compute(gamma.shape, term, "shift")

    def element(*i: Expr) -> Expr:
        return cast(cast(x[i], dtype) * scale[i[a.axis]] + shift[i[a.axis]], x.dtype)

    kept = [compute(t.shape, lambda c, t=t: t[c], "kept") for t in (mean, variance)]
    return compute(x.shape, element, "batch_norm"), kept[0], kept[1]


def _cost(args: Sequence[TensorType], out: Type, a: object) -> Cost:
    return Cost(product(args[0].shape) * 4, tensor_bytes((args[0], args[0])))


_C = ((3,), "float32")
_VARIANCE = np.array([0.5, 0.0, 2.0], np.float32)

batch_norm = Op(
    name="nn.batch_norm",
    args=("data", "gamma", "beta", "moving_mean", "moving_var"),
    attrs=BatchNormAttrs,
    type_rel=_batch_relation,
    reference=quiet(_batch_reference),
    compute=_batch_compute,
    grad=batch_norm_gradient,
    fusion=Fusion.BROADCAST,
    cost=_cost,
    samples=(
        Sample((((2, 3, 2, 2), "float32"), _C, _C, _C, _VARIANCE)),
        Sample((((2, 2, 3), "float32"), _C, _C, _C, _VARIANCE), {"axis": -1, "scale": False, "epsilon": 1e-3}),
        Sample((((2, 3), "float16"), _C, _C, _C, _VARIANCE), {"center": False}, rtol=2e-3),
        Sample((EDGES.reshape(6, 3), _C, _C, _C, _VARIANCE)),
    ),
    doc="""((data − moving_mean)/√(moving_var + epsilon) · gamma + beta, moving_mean, moving_var), as in inference.

It is formed as data · s + (beta − moving_mean · s) with s = gamma/√(moving_var + epsilon).

The four parameters are vectors along dimension `axis`; un-annotated they get their types.""",
)

# ------------------------------------------------------------------------------- L2


@dataclass(frozen=True, slots=True)
class L2NormalizeAttrs(Attrs):
    """`eps`: the least sum of squares; `axis`: the dimensions that are summed (() is all)."""

    eps: float
    axis: int | tuple[int, ...] = ()


def _axes(a: L2NormalizeAttrs, rank: int) -> tuple[int, ...]:
    listed = (a.axis,) if isinstance(a.axis, int) else a.axis
    return tuple(sorted(d % rank for d in listed)) or tuple(range(rank))


def _l2_relation(rel: Relation, data: Type, a: L2NormalizeAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    normalize_axes(rel, a.axis, ty.rank)
    return ty


def _l2_reference(data: Array, a: L2NormalizeAttrs) -> Array:
    x = wide(data)
    squares = (x * x).sum(axis=_axes(a, x.ndim), keepdims=True)
    return np.asarray(x / np.sqrt(np.maximum(squares, x.dtype.type(a.eps)))).astype(data.dtype)


def _l2_compute(x: Tensor, a: L2NormalizeAttrs, out: TensorType) -> Tensor:
    groups, acc = over_axes(x.shape, _axes(a, x.rank)), accumulator(x.dtype)
    squares = sum_over(groups, lambda i: cast(x[i], acc) * cast(x[i], acc), "squares")
    norm = compute(groups.shape, lambda *g: te.sqrt(max_(squares[g], const(a.eps, acc))), "norm")
    return compute(x.shape, lambda *i: cast(cast(x[i], acc) / norm[groups.of(i)], x.dtype), "l2_normalize")


def _l2_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    """(dy − y·Σ dy·y)/norm; where the norm is that of `eps`, it is constant."""
    (data,), a = call.args, call.attrs
    axes = _axes(a, len(shape_of(data)))
    x, dy = widened(b, data), widened(b, dy)
    squares = b.sum(b.multiply(x, x), axis=axes, keepdims=True)
    by = b.rsqrt(b.maximum(squares, a.eps))
    y = b.multiply(x, by)
    along = only(b, b.greater(squares, a.eps), b.sum(b.multiply(dy, y), axis=axes, keepdims=True))
    return [narrowed(b, b.multiply(b.subtract(dy, b.multiply(y, along)), by), data)]


l2_normalize = Op(
    name="nn.l2_normalize",
    args=("data",),
    attrs=L2NormalizeAttrs,
    type_rel=_l2_relation,
    reference=quiet(_l2_reference),
    compute=_l2_compute,
    grad=_l2_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=(
        Sample((((2, 3, 4), "float32"),), {"eps": 1e-10, "axis": (1,)}),
        Sample((((2, 3), "float16"),), {"eps": 1e-3}, rtol=2e-3),
        Sample((np.zeros((2, 2), np.float32),), {"eps": 1e-6, "axis": -1}),
    ),
    doc="data/√max(Σ data², eps), summed over `axis`.",
)

# ------------------------------------------------------------------------------- local response


@dataclass(frozen=True, slots=True)
class LRNAttrs(Attrs):
    """`size`: the number of neighbours, with the element; `axis`: their dimension; `bias`: what is added to the sum;
    `alpha`: its factor, divided by `size`; `beta`: the exponent.
    """

    size: int = 5
    axis: int = 1
    bias: float = 2.0
    alpha: float = 0.0001
    beta: float = 0.75


def _lrn_relation(rel: Relation, data: Type, a: LRNAttrs) -> Type:
    ty = tensor(rel, data, "data")
    require_dtype(rel, ty, FLOAT, "data")
    normalize_axis(rel, a.axis, ty.rank)
    if a.size < 1:
        raise rel.fail(f"size must be 1 or more, got {a.size}")
    return ty


def _lrn_reference(data: Array, a: LRNAttrs) -> Array:
    x = np.moveaxis(wide(data), a.axis, 0)
    before = (a.size - 1) // 2
    squares = np.zeros((x.shape[0] + a.size - 1, *x.shape[1:]), x.dtype)
    squares[before : before + x.shape[0]] = x * x
    total = np.zeros_like(x)
    for k in range(a.size):
        total += squares[k : k + x.shape[0]]
    scale = (total * x.dtype.type(a.alpha / a.size) + x.dtype.type(a.bias)) ** x.dtype.type(a.beta)
    return np.ascontiguousarray(np.moveaxis(x / scale, 0, a.axis)).astype(data.dtype)


def _lrn_compute(x: Tensor, a: LRNAttrs, out: TensorType) -> Tensor:
    axis, acc, before = a.axis % x.rank, accumulator(x.dtype), (a.size - 1) // 2

    def square(*index: Expr) -> Expr:
        i, k = index[:-1], index[-1]
        c = i[axis] + k - before
        value = cast(x[(*i[:axis], c, *i[axis + 1 :])], acc)
        return select(land(ge(c, 0), lt(c, x.shape[axis])), value * value, const(0, acc))

    total = reduce("sum", x.shape, (a.size,), square, "squares")

    def element(*i: Expr) -> Expr:
        scale = te.power(total[i] * (a.alpha / a.size) + a.bias, const(a.beta, acc))
        return cast(cast(x[i], acc) / scale, x.dtype)

    return compute(x.shape, element, "lrn")


def _lrn_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    """Of x·s^(−beta) with s = bias + alpha/size · Σ x²: x is in the sums of the neighbours that see it."""
    (data,), a = call.args, call.attrs
    x, dy = widened(b, data), widened(b, dy)
    before, behind = (a.size - 1) // 2, a.size // 2
    total = _neighbours(b, b.multiply(x, x), a, before, behind)
    scale = b.add(b.multiply(total, a.alpha / a.size), a.bias)
    power = b.power(scale, -a.beta)
    seen = _neighbours(b, b.multiply(dy, b.multiply(x, b.divide(power, scale))), a, behind, before)
    turned = b.multiply(b.multiply(x, 2 * a.alpha * a.beta / a.size), seen)
    return [narrowed(b, b.subtract(b.multiply(dy, power), turned), data)]


def _neighbours(b: Builder, x: Node, a: LRNAttrs, before: int, behind: int) -> Node:
    """For each element the sum of those from `before` before it to `behind` behind it."""
    shape = shape_of(x)
    axis = a.axis % len(shape)
    widths = tuple((before, behind) if n == axis else (0, 0) for n in range(len(shape)))
    padded = b.nn.pad(x, 0, pad_width=widths)
    parts = [
        b.strided_slice(padded, begin=(k,), end=extents([shape[axis] + k]), strides=(1,), axes=(axis,))
        for k in range(a.size)
    ]
    return reduce_(b.add, parts)


lrn = Op(
    name="nn.lrn",
    args=("data",),
    attrs=LRNAttrs,
    type_rel=_lrn_relation,
    reference=quiet(_lrn_reference),
    compute=_lrn_compute,
    grad=_lrn_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=(
        Sample((((1, 6, 2, 2), "float32"),), {"alpha": 0.5}),
        Sample((((1, 2, 5), "float32"),), {"size": 2, "axis": -1, "bias": 1.0, "beta": 0.5}),
        Sample((((1, 4, 2), "float16"),), {"size": 3}, rtol=2e-3),
    ),
    doc="""data/(bias + alpha/size · Σ data²)^beta, summed over `size` neighbours along `axis`.

The neighbours are those from (size − 1) // 2 before to size // 2 behind; none outside the data.""",
)
