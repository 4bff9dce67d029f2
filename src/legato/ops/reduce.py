"""Reductions over axes, and where the extreme element is.

16-bit floats are accumulated in float32 and rounded once; everything else in its own dtype (integers wrap). An empty
reduction gives the identity: 0, 1, the smallest or the largest value; the mean of nothing is NaN, or 0 for integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

import legato.te.math as te
from legato.arith.expr import Expr, const
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.infer.builder import Builder
from legato.ir.attr_record import Attrs
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._dtypes import largest, smallest, wide_numpy
from legato.ops._families import Array, DimRule, elementwise, quiet
from legato.ops._gradients import Rule, count, dtype_of, extents, in_shape, narrowed, only, shape_of, sum_to, widened
from legato.ops._rules import FLOAT, NUMBER, DTypeTest, normalize_axes, product, require_dtype, tensor
from legato.ops._tensors import accumulator
from legato.te.tensor import Tensor, reduce

__all__ = ["ArgReduceAttrs", "ReduceAttrs", "VarianceAttrs", "reduction"]


@dataclass(frozen=True, slots=True)
class ReduceAttrs(Attrs):
    """axis: the axes to reduce, None for all; keepdims: they stay as 1; exclude: reduce all *but* `axis`."""

    axis: tuple[int, ...] | int | None = None
    keepdims: bool = False
    exclude: bool = False


@dataclass(frozen=True, slots=True)
class ArgReduceAttrs(Attrs):
    """As ReduceAttrs; `select_last_index`: of equal elements the last is meant, not the first."""

    axis: tuple[int, ...] | int | None = None
    keepdims: bool = False
    select_last_index: bool = False
    exclude: bool = False


@dataclass(frozen=True, slots=True)
class VarianceAttrs(Attrs):
    """As ReduceAttrs; `unbiased`: the sum is divided by n - 1."""

    axis: tuple[int, ...] | int | None = None
    keepdims: bool = False
    exclude: bool = False
    unbiased: bool = False


AnyReduceAttrs = ReduceAttrs | ArgReduceAttrs | VarianceAttrs
Either = Any  # True or False: NumPy's stubs since 2.5 have overloads for each, none for a bool


def axes_of(attrs: AnyReduceAttrs, rank: int) -> tuple[int, ...]:
    """The axes that a checked attribute record reduces, ascending."""
    if attrs.axis is None:
        listed = set(range(rank))
    else:
        listed = {a % rank for a in ((attrs.axis,) if isinstance(attrs.axis, int) else attrs.axis)}
    return tuple(n for n in range(rank) if (n in listed) != attrs.exclude)


def _reduced_shape(relation: Relation, x: TensorType, attrs: AnyReduceAttrs) -> tuple[Dim, ...]:
    normalize_axes(relation, attrs.axis, x.rank)
    axes = axes_of(attrs, x.rank)
    if attrs.keepdims:
        return tuple(const(1) if n in axes else d for n, d in enumerate(x.shape))
    return tuple(d for n, d in enumerate(x.shape) if n not in axes)


class Axes:
    """The index arithmetic of one reduction: which axes are kept, and how an input index is put together."""

    def __init__(self, x: Tensor, attrs: AnyReduceAttrs) -> None:
        self.rank = len(x.shape)
        self.reduced = axes_of(attrs, self.rank)
        self.kept = tuple(n for n in range(self.rank) if n not in self.reduced)
        self.extents = tuple(x.shape[n] for n in self.reduced)
        self._keepdims = attrs.keepdims
        self._outer = self.rank if attrs.keepdims else len(self.kept)

    def full(self, out_and_inner: Sequence[Expr]) -> tuple[Expr, ...]:
        """The input index for output index ++ reduction index."""
        out, inner = out_and_inner[: self._outer], out_and_inner[self._outer :]
        outer = [out[n] for n in self.kept] if self._keepdims else list(out)
        index = dict(zip(self.kept, outer, strict=True)) | dict(zip(self.reduced, inner, strict=True))
        return tuple(index[n] for n in range(self.rank))

    def out(self, out_and_inner: Sequence[Expr]) -> tuple[Expr, ...]:
        """The output index of output index ++ reduction index."""
        return tuple(out_and_inner[: self._outer])

    def flat(self, out_and_inner: Sequence[Expr]) -> Expr:
        """The position of the reduction index among the reduced elements, in row-major order."""
        total: Expr = const(0)
        for i, extent in zip(out_and_inner[self._outer :], self.extents, strict=True):
            total = total * extent + i
        return total


def _cost(args: Sequence[TensorType], out: Type, attrs: Any) -> Cost:
    elements = product(args[0].shape)
    assert isinstance(out, TensorType)
    moved = elements * args[0].dtype.bytes + product(out.shape) * out.dtype.bytes
    return Cost(elements, moved)


def _count(x: Tensor, attrs: AnyReduceAttrs) -> Dim:
    return product([x.shape[n] for n in axes_of(attrs, len(x.shape))])


def reduction(
    name: str,
    reference: Callable[[Array, tuple[int, ...], Either], Any],
    build: Callable[[Tensor, ReduceAttrs, TensorType], Tensor],
    *,
    doc: str,
    dtypes: DTypeTest = NUMBER,
    value: Callable[[Sequence[Dim]], Dim | None] | None = None,
    grad: Rule | None = None,
    samples: Sequence[Sample] = (),
) -> Op:
    """A reduction of one tensor: `reference(x, axes, keepdims)` in NumPy, `build(x, attrs, out_type)` in te."""

    def type_rel(relation: Relation, x: Type, attrs: ReduceAttrs) -> Type:
        ty = tensor(relation, x, "data")
        require_dtype(relation, ty, dtypes, "data")
        return TensorType(_reduced_shape(relation, ty, attrs), ty.dtype)

    def run(x: Array, attrs: ReduceAttrs) -> Array:
        return np.asarray(reference(x, axes_of(attrs, x.ndim), attrs.keepdims)).astype(x.dtype)

    def value_rule(x: Sequence[Dim] | None, attrs: ReduceAttrs, ty: TensorType) -> tuple[Dim, ...] | None:
        if x is None or value is None or len(axes_of(attrs, ty.rank)) != ty.rank:
            return None
        found = value(x)
        return None if found is None else (found,)

    return Op(
        name=name,
        args=("data",),
        attrs=ReduceAttrs,
        type_rel=type_rel,
        reference=quiet(run),
        compute=build,
        grad=grad,
        value=None if value is None else value_rule,
        fusion=Fusion.REDUCE,
        cost=_cost,
        samples=tuple(samples) or _NUMBERS,
        doc=doc,
    )


_NAN = np.array([[1.0, np.nan, 3.0], [np.inf, 2.0, -1.0], [-np.inf, np.inf, 0.0]], np.float32)
_NUMBERS = (
    Sample((((3, 4, 5), "float32"),)),
    Sample((((3, 4, 5), "float32"),), {"axis": (1,)}),
    Sample((((3, 4, 5), "float32"),), {"axis": (0, -1), "keepdims": True}),
    Sample((((3, 4, 5), "float64"),), {"axis": 1, "exclude": True}),
    Sample((((3, 40), "float16"),), {"axis": (1,)}),
    Sample((_NAN,), {"axis": (1,)}),
    Sample((((2, 0), "float32"),), {"axis": (1,)}),
    Sample((((), "float32"),)),
    Sample((((3, 4), "float32"),), {"axis": ()}),
    Sample((np.array([[100, 100, 27], [-128, -1, 5]], np.int8),), {"axis": (1,)}, exact=True),
    Sample((((2, 3), "int64"),), exact=True),
)
_FLAGS = (
    Sample((np.array([[True, False], [True, True]]),), {"axis": (1,)}, exact=True),
    Sample((np.zeros((2, 0), np.bool_),), {"axis": (1,), "keepdims": True}, exact=True),
    Sample((np.array([[True, False], [True, True]]),), exact=True),
)


# ------------------------------------------------------------------ sum, prod, max, min, all, any, mean


def _size(x: Array, axes: tuple[int, ...]) -> int:
    return int(np.prod([x.shape[n] for n in axes], dtype=np.int64))


def _np_sum(x: Array, axes: tuple[int, ...], keepdims: Either) -> Any:
    return np.sum(x, axis=axes, keepdims=keepdims, dtype=wide_numpy(x))


def _np_prod(x: Array, axes: tuple[int, ...], keepdims: Either) -> Any:
    return np.prod(x, axis=axes, keepdims=keepdims, dtype=wide_numpy(x))


def _np_max(x: Array, axes: tuple[int, ...], keepdims: Either) -> Any:
    return np.max(x, axis=axes, keepdims=keepdims, initial=smallest(dt.dtype(x.dtype)))


def _np_min(x: Array, axes: tuple[int, ...], keepdims: Either) -> Any:
    return np.min(x, axis=axes, keepdims=keepdims, initial=largest(dt.dtype(x.dtype)))


def _mean_dtype(d: DType) -> DType:
    """The dtype in which a mean is formed: 64 bits for integers, so that the count fits."""
    return accumulator(d) if d.is_float else dt.int64 if d.is_signed else dt.uint64


def _np_mean(x: Array, axes: tuple[int, ...], keepdims: Either) -> Any:
    dtype = _mean_dtype(dt.dtype(x.dtype)).numpy
    total = np.asarray(np.sum(x, axis=axes, keepdims=keepdims, dtype=dtype))
    count = dtype.type(_size(x, axes))
    if x.dtype.kind not in "iu":
        return total / count
    if not count:
        return np.zeros_like(total)
    quotient = total // count
    return quotient + ((quotient < 0) & (quotient * count != total)).astype(dtype)


def _te_simple(combiner: str) -> Callable[[Tensor, ReduceAttrs, TensorType], Tensor]:
    def build(x: Tensor, attrs: ReduceAttrs, out_type: TensorType) -> Tensor:
        axes, dtype = Axes(x, attrs), accumulator(x.dtype)
        total = reduce(combiner, out_type.shape, axes.extents, lambda *i: te.cast(x[axes.full(i)], dtype), combiner)
        return total if total.dtype == x.dtype else elementwise(total, lambda v: te.cast(v, x.dtype))

    return build


def _te_flags(combiner: str) -> Callable[[Tensor, ReduceAttrs, TensorType], Tensor]:
    """all and any, as the smallest and largest of 0 and 1."""

    def build(x: Tensor, attrs: ReduceAttrs, out_type: TensorType) -> Tensor:
        axes, zero, one = Axes(x, attrs), te.literal(0, dt.uint8), te.literal(1, dt.uint8)
        init = one if combiner == "min" else zero
        bits = reduce(
            combiner, out_type.shape, axes.extents, lambda *i: te.select(x[axes.full(i)], one, zero), combiner, init
        )
        return elementwise(bits, lambda v: te.ne(v, zero))

    return build


def _te_mean(x: Tensor, attrs: ReduceAttrs, out_type: TensorType) -> Tensor:
    axes, dtype = Axes(x, attrs), _mean_dtype(x.dtype)
    total = reduce("sum", out_type.shape, axes.extents, lambda *i: te.cast(x[axes.full(i)], dtype), "sum")
    count = te.cast(_count(x, attrs), dtype)
    if x.dtype.is_float:
        return elementwise(total, lambda v: te.cast(v / count, x.dtype), "mean")
    return elementwise(total, lambda v: te.cast(te.truncdiv(v, count), x.dtype), "mean")


def _fold(rule: DimRule, start: int) -> Callable[[Sequence[Dim]], Dim | None]:
    def value(dims: Sequence[Dim]) -> Dim | None:
        total: Dim | None = const(start) if start >= 0 else dims[0] if dims else None
        for d in dims if start >= 0 else dims[1:]:
            total = None if total is None else rule(total, d)
        return total

    return value


def _spread(b: Builder, call: Call, v: Node) -> Node:
    """`v`, of the shape of a reduction's result, stretched to that of its operand."""
    shape = shape_of(call.args[0])
    axes = axes_of(call.attrs, len(shape))
    if not call.attrs.keepdims:
        v = in_shape(b, v, [const(1) if n in axes else d for n, d in enumerate(shape)])
    return b.broadcast_to(v, shape=extents(shape))


def _sum_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    return [_spread(b, call, dy)]


def _extreme_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    """An equal share for each element that is the extreme one, or for each NaN."""
    x, attrs = call.args[0], call.attrs
    is_extreme = b.logical_or(b.equal(x, _spread(b, call, call)), b.isnan(x))
    one = widened(b, b.cast(is_extreme, dtype=dtype_of(x)))
    many = b.sum(one, axis=axes_of(attrs, len(shape_of(x))), keepdims=attrs.keepdims)
    share = narrowed(b, b.divide(widened(b, dy), many), x)
    return [only(b, is_extreme, _spread(b, call, share))]


def _prod_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    """The product of all elements before an element and all behind it, which holds for zeros too."""
    x = call.args[0]
    shape = shape_of(x)
    axes = axes_of(call.attrs, len(shape))
    kept = tuple(n for n in range(len(shape)) if n not in axes)
    order = (*kept, *axes)
    rows = b.transpose(x, axes=order) if order != tuple(range(len(shape))) else x
    flat = in_shape(b, rows, [*(shape[n] for n in kept), product([shape[n] for n in axes])])
    others = b.multiply(*(_before(b, flat, backwards) for backwards in (False, True)))
    others = in_shape(b, others, [shape[n] for n in order])
    if rows is not x:
        others = b.transpose(others, axes=tuple(order.index(n) for n in range(len(shape))))
    return [b.multiply(_spread(b, call, dy), others)]


def _before(b: Builder, x: Node, backwards: bool) -> Node:
    """The products of the elements before each one along the last axis, or behind it."""
    if not backwards:
        return b.cumprod(x, axis=-1, exclusive=True)
    return b.reverse(b.cumprod(b.reverse(x, axis=-1), axis=-1, exclusive=True), axis=-1)


def _mean_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    x = call.args[0]
    many = count(b, x, axes_of(call.attrs, len(shape_of(x))))
    return [_spread(b, call, narrowed(b, b.divide(widened(b, dy), many), x))]


sum_ = reduction(
    "sum", _np_sum, _te_simple("sum"), value=_fold(lambda a, b: a + b, 0), grad=_sum_gradient, doc="Sum over axes."
)
prod = reduction(
    "prod", _np_prod, _te_simple("prod"), value=_fold(lambda a, b: a * b, 1), grad=_prod_gradient,
    doc="Product over axes.",
)  # fmt: skip
max_ = reduction(
    "max", _np_max, _te_simple("max"), value=_fold(te.max_, -1), grad=_extreme_gradient,
    doc="Largest element over axes; NaN wins.",
)  # fmt: skip
min_ = reduction(
    "min", _np_min, _te_simple("min"), value=_fold(te.min_, -1), grad=_extreme_gradient,
    doc="Smallest element over axes; NaN wins.",
)  # fmt: skip
mean = reduction(
    "mean", _np_mean, _te_mean, grad=_mean_gradient, doc="Mean over axes; integers are rounded towards zero."
)


def _is_bool(d: DType) -> bool:
    return d.is_bool


_is_bool.__name__ = "bool"
all_ = reduction(
    "all", lambda x, axes, keep: np.all(x, axis=axes, keepdims=keep), _te_flags("min"), dtypes=_is_bool, samples=_FLAGS,
    doc="True where all elements over axes are.",
)  # fmt: skip
any_ = reduction(
    "any", lambda x, axes, keep: np.any(x, axis=axes, keepdims=keep), _te_flags("max"), dtypes=_is_bool, samples=_FLAGS,
    doc="True where any element over axes is.",
)  # fmt: skip


# ------------------------------------------------------------------ variance


def _variance_type(relation: Relation, x: Type, mean_type: Type, attrs: VarianceAttrs) -> Type:
    data = tensor(relation, x, "data")
    require_dtype(relation, data, FLOAT, "data")
    axes = axes_of(attrs, data.rank)
    kept = tuple(const(1) if n in axes else d for n, d in enumerate(data.shape))
    relation.unify(mean_type, TensorType(kept, data.dtype), "mean")
    return TensorType(_reduced_shape(relation, data, attrs), data.dtype)


def _variance_reference(x: Array, mean_value: Array, attrs: VarianceAttrs) -> Array:
    axes, dtype = axes_of(attrs, x.ndim), wide_numpy(x)
    count = int(np.prod([x.shape[n] for n in axes], dtype=np.int64)) - attrs.unbiased
    off, keepdims = x.astype(dtype) - mean_value.astype(dtype), cast("Either", attrs.keepdims)
    total = np.asarray(np.sum(off * off, axis=axes, keepdims=keepdims, dtype=dtype))
    return np.asarray(total / dtype.type(count)).astype(x.dtype)


def _variance_compute(x: Tensor, mean_value: Tensor, attrs: VarianceAttrs, out_type: TensorType) -> Tensor:
    axes, dtype = Axes(x, attrs), accumulator(x.dtype)

    def square(*i: Expr) -> Expr:
        at = axes.full(i)
        centre = tuple(const(0) if n in axes.reduced else v for n, v in enumerate(at))
        off = te.cast(x[at], dtype) - te.cast(mean_value[centre], dtype)
        return off * off

    total = reduce("sum", out_type.shape, axes.extents, square, "squares")
    count = te.cast(_count(x, attrs) - int(attrs.unbiased), dtype)
    return elementwise(total, lambda v: te.cast(v / count, x.dtype), "variance")


def _variance_gradient(b: Builder, call: Call, dy: Node) -> list[Node]:
    """2·(x − m)/n for the elements, and the sum of these with the other sign for what they are compared with."""
    (x, middle), attrs = call.args, call.attrs
    many = count(b, x, axes_of(attrs, len(shape_of(x))))
    share = b.divide(b.multiply(widened(b, dy), 2), b.subtract(many, 1) if attrs.unbiased else many)
    off = b.subtract(widened(b, x), widened(b, middle))
    moved = b.multiply(off, _spread(b, call, share))
    return [narrowed(b, moved, x), narrowed(b, b.negative(sum_to(b, moved, shape_of(middle))), middle)]


variance = Op(
    name="variance",
    args=("data", "mean"),
    attrs=VarianceAttrs,
    type_rel=_variance_type,
    reference=quiet(_variance_reference),
    compute=_variance_compute,
    grad=_variance_gradient,
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=(
        Sample((((3, 4, 5), "float32"), ((3, 1, 1), "float32")), {"axis": (1, 2)}),
        Sample((((3, 4), "float32"), ((3, 1), "float32")), {"axis": 1, "keepdims": True, "unbiased": True}),
        Sample((((3, 4), "float16"), ((1, 4), "float16")), {"axis": (0,)}),
        Sample((((3, 1), "float32"), ((3, 1), "float32")), {"axis": (1,), "unbiased": True}),
    ),
    doc="Mean of (data - mean)^2 over axes; `mean` is the mean with keepdims.",
)


# ------------------------------------------------------------------ argmax, argmin


def _arg_type(relation: Relation, x: Type, attrs: ArgReduceAttrs) -> Type:
    ty = tensor(relation, x, "data")
    require_dtype(relation, ty, NUMBER, "data")
    return TensorType(_reduced_shape(relation, ty, attrs), dt.int32)


def _arg_reference(find: Callable[..., Any]) -> Callable[[Array, ArgReduceAttrs], Array]:
    def run(x: Array, attrs: ArgReduceAttrs) -> Array:
        axes = axes_of(attrs, x.ndim)
        kept = [n for n in range(x.ndim) if n not in axes]
        flat = x.transpose(*kept, *axes).reshape(*[x.shape[n] for n in kept], -1 if x.size else _size(x, axes))
        if flat.shape[-1] == 0:
            index = np.zeros(flat.shape[:-1], np.int32)
        elif attrs.select_last_index:
            index = flat.shape[-1] - 1 - find(flat[..., ::-1], axis=-1)
        else:
            index = find(flat, axis=-1)
        shape = [1 if n in axes else d for n, d in enumerate(x.shape)] if attrs.keepdims else [x.shape[n] for n in kept]
        return np.asarray(index, np.int32).reshape(shape)

    return run


def _arg_compute(combiner: str) -> Callable[[Tensor, ArgReduceAttrs, TensorType], Tensor]:
    """The extreme element first, then the least (or greatest) position that holds it."""

    def build(x: Tensor, attrs: ArgReduceAttrs, out_type: TensorType) -> Tensor:
        axes = Axes(x, attrs)
        extreme = reduce(combiner, out_type.shape, axes.extents, lambda *i: x[axes.full(i)], combiner)
        last = attrs.select_last_index
        nowhere = te.literal(0, dt.int32) if last else te.cast(product(axes.extents), dt.int32)

        def position(*i: Expr) -> Expr:
            v = x[axes.full(i)]
            here = te.lor(te.eq(v, extreme[axes.out(i)]), te.isnan(v))
            return te.select(here, te.cast(axes.flat(i), dt.int32), nowhere)

        return reduce("max" if last else "min", out_type.shape, axes.extents, position, "position", nowhere)

    return build


_ARG_SAMPLES = (
    Sample((((3, 4, 5), "float32"),), {"axis": (1,)}, exact=True),
    Sample((((3, 4, 5), "float32"),), {"axis": (0, 2), "keepdims": True}, exact=True),
    Sample((((3, 4), "float32"),), exact=True),
    Sample((_NAN,), {"axis": (1,)}, exact=True),
    Sample((np.array([[1, 3, 3, 1], [2, 2, 2, 2]], np.int32),), {"axis": (1,)}, exact=True),
    Sample((np.array([[1, 3, 3, 1], [2, 2, 2, 2]], np.int32),), {"axis": 1, "select_last_index": True}, exact=True),
    Sample((np.zeros((2, 0), np.float32),), {"axis": (1,)}, exact=True),
)


def _arg(name: str, combiner: str, find: Callable[..., Any], doc: str) -> Op:
    return Op(
        name=name,
        args=("data",),
        attrs=ArgReduceAttrs,
        type_rel=_arg_type,
        reference=_arg_reference(find),
        compute=_arg_compute(combiner),
        fusion=Fusion.REDUCE,
        cost=_cost,
        samples=_ARG_SAMPLES,
        doc=f"{doc} Positions count the reduced elements in row-major order, as int32; NaN counts as the extreme, 0 is "
        "given for no elements.",
    )


argmax = _arg("argmax", "max", np.argmax, "Position of the largest element over axes.")
argmin = _arg("argmin", "min", np.argmin, "Position of the smallest element over axes.")
