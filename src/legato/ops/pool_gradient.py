"""Gradients of pooling, over sliding windows and over those that the result's extents give.

Of each kind of maximum there are two operators, which are each other's transposes: `_grad` gives to the element that
each window chooses, `_take` takes from there. Of averages it is `_backward`, which needs only the shape of the data,
and whose transpose is the average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Call
from legato.ir.expr import Expr as Node
from legato.ir.op import Cost, Fusion, Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type, dims
from legato.ops._families import quiet
from legato.ops._gradients import Contribution
from legato.ops._pool_gradients import PoolWindows
from legato.ops._rules import FLOAT, require_dtype, same_dtype, same_shape, tensor
from legato.ops._tensors import Array, as_int, product, tensor_bytes
from legato.ops.adaptive_pool import (
    AdaptivePool1DAttrs,
    AdaptivePool3DAttrs,
    AdaptivePoolAttrs,
    adaptive_bins,
    adaptive_orders,
    adaptive_relation,
)
from legato.ops.pool import (
    AvgPool1DAttrs,
    AvgPool3DAttrs,
    AvgPoolAttrs,
    MaxPool1DAttrs,
    MaxPool3DAttrs,
    MaxPoolAttrs,
    pool_orders,
    pool_relation,
    sliding,
)
from legato.te.tensor import Tensor

__all__ = ["AdaptiveAvgPool1DBackwardAttrs", "AdaptiveAvgPool3DBackwardAttrs", "AdaptiveAvgPoolBackwardAttrs",
           "AvgPool1DBackwardAttrs", "AvgPool3DBackwardAttrs", "AvgPoolBackwardAttrs"]  # fmt: skip

PoolAttrs = MaxPoolAttrs | AdaptivePoolAttrs
Rule = Callable[[Builder, Call, Node], list[Contribution]]


@dataclass(frozen=True, slots=True)
class AvgPoolBackwardAttrs(AvgPoolAttrs):
    """As AvgPoolAttrs; `data_shape`: the shape of the data."""

    data_shape: tuple[int | Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class AvgPool1DBackwardAttrs(AvgPool1DAttrs):
    """As AvgPool1DAttrs; `data_shape`: the shape of the data."""

    data_shape: tuple[int | Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class AvgPool3DBackwardAttrs(AvgPool3DAttrs):
    """As AvgPool3DAttrs; `data_shape`: the shape of the data."""

    data_shape: tuple[int | Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class AdaptiveAvgPoolBackwardAttrs(AdaptivePoolAttrs):
    """As AdaptivePoolAttrs; `data_shape`: the shape of the data."""

    data_shape: tuple[int | Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class AdaptiveAvgPool1DBackwardAttrs(AdaptivePool1DAttrs):
    """As AdaptivePool1DAttrs; `data_shape`: the shape of the data."""

    data_shape: tuple[int | Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class AdaptiveAvgPool3DBackwardAttrs(AdaptivePool3DAttrs):
    """As AdaptivePool3DAttrs; `data_shape`: the shape of the data."""

    data_shape: tuple[int | Dim, ...] = ()


def _windows(a: PoolAttrs, shape: Sequence[Dim]) -> PoolWindows:
    """The windows over data of a shape."""
    if isinstance(a, AdaptivePoolAttrs):
        order, out_order = adaptive_orders(a)
        return PoolWindows(order, out_order, tuple(adaptive_bins(a, order.extents(shape)[2:])))
    order, out_order = pool_orders(a)
    return PoolWindows(order, out_order, tuple(sliding(a, order.extents(shape)[2:])))


def _pooled(rank: int, rel: Relation, data: TensorType, a: PoolAttrs) -> TensorType:
    """The type of what the pooling gives."""
    require_dtype(rel, data, FLOAT, "data")
    ty = (adaptive_relation(rank, rel, data, a) if isinstance(a, AdaptivePoolAttrs)
          else pool_relation(rank, rel, data, a))  # fmt: skip
    assert isinstance(ty, TensorType)
    return ty


def _is_of_result(rank: int, rel: Relation, grad: TensorType, data: TensorType, a: PoolAttrs) -> None:
    """Fails unless `grad` has the type of what the pooling of data gives."""
    same_dtype(rel, grad, data)
    same_shape(rel, grad.shape, _pooled(rank, rel, data, a).shape, "the gradient and what the pooling gives")


def _cost(args: Sequence[TensorType], out: Type, a: PoolAttrs) -> Cost:
    assert isinstance(out, TensorType)
    data = args[1] if len(args) > 1 else out
    taps = product(w.taps for w in _windows(a, data.shape).along)
    return Cost(product(args[0].shape) * taps, tensor_bytes((*args, out)))


# ------------------------------------------------------------------------------- maxima


def _grad_relation(rank: int, rel: Relation, grad: Type, data: Type, a: PoolAttrs) -> Type:
    x = tensor(rel, data, "data")
    _is_of_result(rank, rel, tensor(rel, grad, "out_grad"), x, a)
    return x


def _take_relation(rank: int, rel: Relation, values: Type, data: Type, a: PoolAttrs) -> Type:
    x, v = tensor(rel, data, "data"), tensor(rel, values, "values")
    same_dtype(rel, v, x)
    same_shape(rel, v.shape, x.shape, "values and data")
    return _pooled(rank, rel, x, a)


def _take_reference(values: Array, data: Array, a: PoolAttrs) -> Array:
    windows = _windows(a, dims(data.shape))
    return windows.reference_of_largest(values, data, [as_int(w.count) for w in windows.along])


def _transposed_by(name: str) -> Rule:
    """The rule of an operator of (what it is linear in, data), of which `name` is the transpose."""
    return lambda b, call, dy: [b.call(name, dy, call.args[1], **call.attrs), None]


_GRAD_DOC = """The gradient of nn.{pool}: what `out_grad`, that of its result, gives to each element of `data`.

A window gives all to the first of its largest elements, or to its first NaN. The attributes are those of nn.{pool}."""
_TAKE_DOC = """The elements of `values` where nn.{pool} of `data` finds the maxima; 0 for a window without elements.

Of a window's largest elements the first is taken, or its first NaN. The attributes are those of nn.{pool}."""


def _grad(pool: str, rank: int, attrs: type[PoolAttrs], samples: Sequence[Sample]) -> Op:
    return Op(
        name=f"nn.{pool}_grad",
        args=("out_grad", "data"),
        attrs=attrs,
        type_rel=partial(_grad_relation, rank),
        reference=quiet(lambda grad, x, a: _windows(a, dims(x.shape)).reference_to_largest(grad, x)),
        compute=lambda grad, x, a, out: _windows(a, x.shape).to_largest(grad, x),
        grad=_transposed_by(f"nn.{pool}_take"),
        fusion=Fusion.REDUCE,
        cost=_cost,
        samples=tuple(samples),
        doc=_GRAD_DOC.format(pool=pool),
    )


def _take(pool: str, rank: int, attrs: type[PoolAttrs], samples: Sequence[Sample]) -> Op:
    return Op(
        name=f"nn.{pool}_take",
        args=("values", "data"),
        attrs=attrs,
        type_rel=partial(_take_relation, rank),
        reference=quiet(_take_reference),
        compute=lambda values, x, a, out: _windows(a, x.shape).of_largest(values, x, out.shape),
        grad=_transposed_by(f"nn.{pool}_grad"),
        fusion=Fusion.REDUCE,
        cost=_cost,
        samples=tuple(samples),
        doc=_TAKE_DOC.format(pool=pool),
    )


# ------------------------------------------------------------------------------- averages


def _backward_relation(rank: int, rel: Relation, grad: Type, a: Any) -> Type:
    dy = tensor(rel, grad, "grad")
    data = TensorType(dims(a.data_shape), dy.dtype)
    _is_of_result(rank, rel, dy, data, a)
    return data


def _avg_grad_relation(rel: Relation, grad: Type, data: Type, a: AvgPoolAttrs) -> Type:
    return _grad_relation(2, rel, grad, data, a)


def _average(pool: str, call: Call, b: Builder, dy: Node) -> Node:
    """The transpose of its gradient: the average of `dy`."""
    return b.call(f"nn.{pool}", dy, **{k: v for k, v in {**call.attrs}.items() if k != "data_shape"})


def _shares(grad: Tensor, shape: Sequence[Dim], a: PoolAttrs) -> Tensor:
    return _windows(a, shape).to_all(grad, shape)


def _reference_shares(grad: Array, shape: Sequence[int], a: PoolAttrs) -> Array:
    return _windows(a, dims(shape)).reference_to_all(grad, shape)


_BACKWARD_DOC = """The gradient of nn.{pool}: what `{grad}`, that of its result, gives to each element of its data.

A window gives the same share to each of its elements; shares for padding are lost. The attributes are those of
nn.{pool}{more}."""


def _backward(pool: str, rank: int, attrs: type[PoolAttrs], samples: Sequence[Sample]) -> Op:
    return Op(
        name=f"nn.{pool}_backward",
        args=("grad",),
        attrs=attrs,
        type_rel=partial(_backward_relation, rank),
        reference=quiet(lambda grad, a: _reference_shares(grad, [as_int(n) for n in a.data_shape], a)),
        compute=lambda grad, a, out: _shares(grad, out.shape, a),
        grad=lambda b, call, dy: [_average(pool, call, b, dy)],
        fusion=Fusion.REDUCE,
        cost=_cost,
        samples=tuple(Sample(s.args[:1], {**s.attrs, "data_shape": s.args[1][0]}, s.rtol) for s in samples),
        doc=_BACKWARD_DOC.format(pool=pool, grad="grad", more=", and the shape of the data"),
    )


# ------------------------------------------------------------------------------- samples


def _cases(*given: tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]) -> list[Sample]:
    """Samples from the shapes of the pooling's result and data, and attributes."""
    return [Sample(((out, "float32"), (data, "float32")), attrs) for out, data, attrs in given]


def _values(samples: Sequence[Sample]) -> list[Sample]:
    """Samples with `values` of the data's shape in place of `out_grad`."""
    return [Sample(((_shape(s.args[1]), _dtype(s.args[1])), s.args[1]), s.attrs, s.rtol) for s in samples]


def _shape(arg: Any) -> tuple[int, ...]:
    return tuple(arg.shape if isinstance(arg, np.ndarray) else arg[0])


def _dtype(arg: Any) -> str:
    return str(arg.dtype if isinstance(arg, np.ndarray) else arg[1])


_EDGES = np.array([[[[np.nan, 1.0, 2.0], [-np.inf, -np.inf, np.inf], [0.0, -0.0, 3.0]]]], np.float32)
_TIES = np.array([[[[1, 1, 0, 1], [1, 1, 2, 2], [2, 1, 2, 2]]]], np.float32)
_1D = _cases(
    ((2, 2, 5), (2, 2, 8), {"pool_size": (3,), "strides": (2,), "padding": (1,), "ceil_mode": True}),
    ((1, 4, 2), (1, 6, 2), {"pool_size": (2,), "layout": "NWC", "dilation": (2,)}),
    ((1, 1, 3), (1, 1, 9), {"pool_size": (2,), "strides": (3,), "dilation": (2,)}),
)
_2D = [
    *_cases(
        ((1, 2, 3, 3), (1, 2, 5, 6), {"pool_size": (3, 2), "strides": (2, 2), "padding": (1, 0, 1, 1)}),
        ((1, 2, 2, 2), (1, 4, 4, 2), {"pool_size": (2, 2), "strides": (3, 3), "layout": "NHWC", "ceil_mode": True}),
        ((1, 2, 4, 6, 3), (1, 2, 3, 5, 3), {"pool_size": (2, 2), "padding": (1, 1), "layout": "NCHW3c"}),
        ((1, 2, 2, 1), (1, 1, 4, 4), {"pool_size": (3, 3), "out_layout": "NHWC"}),
        ((0, 2, 2, 2), (0, 2, 4, 4), {"pool_size": (3, 3)}),
    ),
    Sample((((1, 1, 3, 3), "float16"), ((1, 1, 3, 3), "float16")), {"pool_size": (3, 3), "padding": (1, 1)}, 2e-3),
]
_TIED = [
    Sample((((1, 1, 4, 4), "float32"), _EDGES), {"pool_size": (2, 2), "padding": (1, 1)}),
    Sample((((1, 1, 2, 3), "float32"), _TIES), {"pool_size": (2, 2)}),
]
_3D = _cases(
    ((1, 2, 4, 2, 2), (1, 2, 3, 4, 3), {"pool_size": (2, 2, 2), "padding": (1, 0, 1), "strides": (1, 2, 2)}),
    ((1, 1, 2, 2, 2), (1, 1, 4, 3, 5), {"pool_size": (2, 2, 3), "strides": (3, 2, 3), "ceil_mode": True}),
)
_PAD_COUNTS = _cases(
    ((1, 1, 3, 3), (1, 1, 5, 5),
     {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1), "count_include_pad": True}),
    ((1, 1, 4, 3), (1, 1, 6, 4), {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1), "ceil_mode": True,
                                  "count_include_pad": True}),
)  # fmt: skip
_ADAPTIVE_1D = _cases(
    ((1, 2, 3), (1, 2, 7), {"output_size": (3,)}),
    ((1, 5, 2), (1, 5, 2), {"layout": "NWC"}),
)
_ADAPTIVE_2D = _cases(
    ((1, 2, 3, 3), (1, 2, 5, 6), {"output_size": (3, 3)}),
    ((1, 2, 2, 2), (1, 3, 4, 2), {"output_size": 2, "layout": "NHWC", "out_layout": "NCHW"}),
    ((1, 1, 3, 5), (1, 1, 2, 3), {"output_size": (3, 5)}),
    ((2, 2, 1, 1, 2), (2, 2, 3, 2, 2), {"output_size": (1, 1), "layout": "NCHW2c"}),
)
_ADAPTIVE_3D = _cases(((1, 1, 2, 2, 1), (1, 1, 3, 4, 3), {"output_size": (2, 2, 1)}))

max_pool1d_grad = _grad("max_pool1d", 1, MaxPool1DAttrs, _1D)
max_pool2d_grad = _grad("max_pool2d", 2, MaxPoolAttrs, [*_2D, *_TIED])
max_pool3d_grad = _grad("max_pool3d", 3, MaxPool3DAttrs, _3D)
adaptive_max_pool1d_grad = _grad("adaptive_max_pool1d", 1, AdaptivePool1DAttrs, _ADAPTIVE_1D)
adaptive_max_pool2d_grad = _grad("adaptive_max_pool2d", 2, AdaptivePoolAttrs, _ADAPTIVE_2D)
adaptive_max_pool3d_grad = _grad("adaptive_max_pool3d", 3, AdaptivePool3DAttrs, _ADAPTIVE_3D)

max_pool1d_take = _take("max_pool1d", 1, MaxPool1DAttrs, _values(_1D))
max_pool2d_take = _take("max_pool2d", 2, MaxPoolAttrs, _values([*_2D, *_TIED]))
max_pool3d_take = _take("max_pool3d", 3, MaxPool3DAttrs, _values(_3D))
adaptive_max_pool1d_take = _take("adaptive_max_pool1d", 1, AdaptivePool1DAttrs, _values(_ADAPTIVE_1D))
adaptive_max_pool2d_take = _take("adaptive_max_pool2d", 2, AdaptivePoolAttrs, _values(_ADAPTIVE_2D))
adaptive_max_pool3d_take = _take("adaptive_max_pool3d", 3, AdaptivePool3DAttrs, _values(_ADAPTIVE_3D))

avg_pool1d_backward = _backward("avg_pool1d", 1, AvgPool1DBackwardAttrs, _1D)
avg_pool2d_backward = _backward("avg_pool2d", 2, AvgPoolBackwardAttrs, [*_2D, *_PAD_COUNTS])
avg_pool3d_backward = _backward("avg_pool3d", 3, AvgPool3DBackwardAttrs, _3D)
adaptive_avg_pool1d_backward = _backward("adaptive_avg_pool1d", 1, AdaptiveAvgPool1DBackwardAttrs, _ADAPTIVE_1D)
adaptive_avg_pool2d_backward = _backward("adaptive_avg_pool2d", 2, AdaptiveAvgPoolBackwardAttrs, _ADAPTIVE_2D)
adaptive_avg_pool3d_backward = _backward("adaptive_avg_pool3d", 3, AdaptiveAvgPool3DBackwardAttrs, _ADAPTIVE_3D)

avg_pool2d_grad = Op(
    name="nn.avg_pool2d_grad",
    args=("out_grad", "data"),
    attrs=AvgPoolAttrs,
    type_rel=_avg_grad_relation,
    reference=quiet(lambda grad, x, a: _reference_shares(grad, x.shape, a)),
    compute=lambda grad, x, a, out: _shares(grad, x.shape, a),
    grad=lambda b, call, dy: [_average("avg_pool2d", call, b, dy), None],
    fusion=Fusion.REDUCE,
    cost=_cost,
    samples=tuple(_PAD_COUNTS),
    doc=_BACKWARD_DOC.format(pool="avg_pool2d", grad="out_grad", more="; of `data` only the shape counts"),
)
