"""Scales: factors of one number per channel, and where they may go.

A scale moves through operators that give s·f(x) for f(s·x), each of which says where the channels of its result are in
its operand (`behind`), and into the weight of a contraction: `Contraction` says along which dims.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from legato.arith.expr import Const
from legato.arith.prove import prove_equal
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, constant
from legato.ir.layout import is_blocked
from legato.ir.types import Dim, TensorType
from legato.ops._moving import as_dim
from legato.ops.activation import leaky_relu, relu
from legato.ops.adaptive_pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    global_avg_pool2d,
    global_max_pool2d,
)
from legato.ops.binary import add, divide, multiply, subtract
from legato.ops.channelwise import bias_add
from legato.ops.conv import conv1d, conv2d, conv3d
from legato.ops.conv_transpose import conv1d_transpose, conv2d_transpose, conv3d_transpose
from legato.ops.linalg import batch_matmul, dense, matmul, nn_matmul
from legato.ops.pad import pad
from legato.ops.pool import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from legato.ops.reshape import batch_flatten, expand_dims, reshape, squeeze
from legato.ops.transpose import transpose
from legato.ops.unary import copy, negative
from legato.transform._normal import smallest

__all__ = ["LARGE", "Contraction", "Path", "Scale", "ahead", "behind", "contraction", "is_sound", "scale_of", "scaled",
           "shift_of", "with_shift", "with_weight"]  # fmt: skip

Array = np.ndarray[Any, Any]
LARGE: Final = 1 << 10  # a constant that large, beside what it is added to, is there to round

_CONVOLUTIONS: Final = (conv1d, conv2d, conv3d)
_TRANSPOSED: Final = (conv1d_transpose, conv2d_transpose, conv3d_transpose)
_MAXIMA: Final = (max_pool1d, max_pool2d, max_pool3d, global_max_pool2d, adaptive_max_pool1d, adaptive_max_pool2d,
                  adaptive_max_pool3d)  # fmt: skip
_AVERAGES: Final = (avg_pool1d, avg_pool2d, avg_pool3d, global_avg_pool2d, adaptive_avg_pool1d, adaptive_avg_pool2d,
                    adaptive_avg_pool3d)  # fmt: skip
_RESHAPES: Final = (reshape, squeeze, expand_dims, batch_flatten)


# ---------------------------------------------------------------------- arithmetic on constants and expressions


def is_sound(product: Array, a: Array, b: Array) -> bool:
    """Whether all of a·b is finite and normal, or 0 because a or b is."""
    sizes, least = np.abs(product), smallest(product)
    if not np.isfinite(sizes.max(initial=0)):  # that of NaN, if there is one
        return False
    if sizes.min(initial=1) >= least:
        return True
    return bool(((sizes >= least) | np.equal(a, 0) | np.equal(b, 0)).all())


def _reshaped(x: Expr, shape: Sequence[int]) -> Expr:
    if isinstance(x, Constant):
        return _constant(x.data.reshape(shape))
    return Builder(span=x.span).op("reshape")(x, newshape=tuple(shape), allowzero=True)


def _repeated(x: Expr, times: int) -> Expr:
    """Each row of a matrix so many times."""
    if isinstance(x, Constant):
        return _constant(np.repeat(x.data, times, axis=0))
    return Builder(span=x.span).op("repeat")(x, repeats=times, axis=0)


def _turned(x: Expr) -> Expr:
    return _constant(x.data.T) if isinstance(x, Constant) else Builder(span=x.span).op("transpose")(x, axes=(1, 0))


def _product(a: Expr, b: Expr) -> Expr | None:
    """a·b; None where constants have a product that is not sound."""
    if not isinstance(a, Constant) or not isinstance(b, Constant):
        return Builder(span=a.span).call(multiply, a, b)
    product = np.asarray(a.data * b.data)
    return _constant(product) if is_sound(product, a.data, b.data) else None


def _quotient(a: Expr, b: Expr) -> Expr | None:
    """a/b; None where constants have a quotient that is not finite and normal."""
    if not isinstance(a, Constant) or not isinstance(b, Constant):
        return Builder(span=a.span).call(divide, a, b)
    quotient = np.asarray(a.data / b.data)
    return _constant(quotient) if not (b.data == 0).any() and is_sound(quotient, a.data, a.data) else None


def _constant(data: Array) -> Constant:
    return constant(np.ascontiguousarray(data).reshape(data.shape), dt.dtype(data.dtype))


# ---------------------------------------------------------------------- scales


@dataclass(frozen=True, slots=True)
class Scale:
    """Factors along dim `axis` of a tensor of `rank`, as a vector; a number, and no axis, where all are the same."""

    value: Expr
    axis: int | None
    rank: int

    def along(self, axis: int | None, rank: int) -> Scale:
        """The same factors along another dim."""
        return replace(self, axis=axis, rank=rank)

    @property
    def is_positive(self) -> bool:
        """Whether all factors are known and above 0."""
        return isinstance(self.value, Constant) and bool((self.value.data > 0).all())

    def spread(self) -> Expr:
        """The factors in the form in which they broadcast."""
        if self.axis is None:
            return self.value
        return _reshaped(self.value, [-1 if d == self.axis else 1 for d in range(self.rank)])

    def times(self, other: Scale) -> Scale | None:
        """Both at once, where they are along one dim, or one has none."""
        axis = self.axis if other.axis is None else other.axis
        if self.axis is not None and self.axis != axis:
            return None
        product = _product(self.value, other.value)
        return None if product is None else Scale(product, axis, self.rank)


def scale_of(call: Expr, computed: bool) -> tuple[int, Scale] | None:
    """For x·s, s·x and x/s: which operand x is, and s or 1/s. None where s does not differ along one dim at most, or is
    no constant unless `computed`."""
    if not isinstance(call, Call) or (call.op is not multiply and call.op is not divide):
        return None
    ty = call.ty
    if not isinstance(ty, TensorType) or not ty.dtype.is_float:
        return None
    for data in (0, 1) if call.op is multiply else (0,):
        x, factor = call.args[data], call.args[1 - data]
        if x.ty != ty or isinstance(x, Constant) or not (computed or isinstance(factor, Constant)):
            continue
        found = _scale(factor, ty)
        if found is not None and call.op is divide:
            one = constant(np.ones((), ty.dtype.numpy), ty.dtype)
            inverse = _quotient(one, found.value)
            found = None if inverse is None else replace(found, value=inverse)
        if found is not None:
            return data, found
    return None


def _scale(factor: Expr, ty: TensorType) -> Scale | None:
    if not isinstance(factor.ty, TensorType) or factor.ty.dtype != ty.dtype or factor.ty.rank > ty.rank:
        return None
    missing = ty.rank - factor.ty.rank
    long = [d + missing for d, n in enumerate(factor.ty.shape) if not (isinstance(n, Const) and n.value == 1)]
    if len(long) > 1 or any(not prove_equal(factor.ty.shape[d - missing], ty.shape[d]) for d in long):
        return None
    axis = long[0] if long else None
    return Scale(_reshaped(factor, [] if axis is None else [-1]), axis, ty.rank)


# ---------------------------------------------------------------------- what scales move through


@dataclass(frozen=True, slots=True)
class Path:
    """A scale of an operator's result is one of its first operand, along `axis` there.

    positive: only where its factors are.
    """

    axis: int | None
    positive: bool = False


def behind(call: Call, axis: int | None) -> Path | None:
    """The way of a scale along `axis` of the result; None where there is none."""
    if call.op is relu or call.op is leaky_relu:
        return Path(axis, positive=True)
    if call.op is negative or call.op is copy:
        return Path(axis)
    if call.op in _MAXIMA or call.op in _AVERAGES:
        layout = call.attrs.layout
        is_spatial = axis is not None and (is_blocked(layout) or layout[axis] not in "NC")
        return None if is_spatial else Path(axis, positive=call.op in _MAXIMA)
    if call.op is pad:
        return Path(axis) if _pads_zeros(call, axis) else None
    if call.op is transpose:
        return Path(axis if axis is None else _permutation(call)[axis])
    if call.op in _RESHAPES:
        return Path(None) if axis is None else _reshaped_path(call, axis)
    return None


def ahead(call: Call, axis: int | None) -> Path | None:
    """The way of a scale along `axis` of the first operand: its axis is one of the result."""
    if axis is None:
        return behind(call, None)
    if not isinstance(call.ty, TensorType):
        return None
    for d in range(call.ty.rank):
        found = behind(call, d)
        if found is not None and found.axis == axis:
            return Path(d, found.positive)
    return None


def _pads_zeros(call: Call, axis: int | None) -> bool:
    value, widths = call.args[1], call.attrs.pad_width
    if call.attrs.pad_mode != "constant" or not isinstance(value, Constant) or value.data != 0:
        return False
    return axis is None or all(prove_equal(as_dim(w), Const(0)) for w in widths[axis])


def _permutation(call: Call) -> Sequence[int]:
    assert isinstance(call.ty, TensorType)
    rank, axes = call.ty.rank, call.attrs.axes
    return [a % rank for a in axes] if axes else range(rank)[::-1]


def _reshaped_path(call: Call, axis: int) -> Path | None:
    """The dim of the operand that has the same extent, and as many elements before it."""
    source = call.args[0].ty
    if not isinstance(source, TensorType) or not isinstance(call.ty, TensorType):
        return None
    before, extent = _count(call.ty.shape[:axis]), call.ty.shape[axis]
    for d, n in enumerate(source.shape):
        if prove_equal(n, extent) and prove_equal(_count(source.shape[:d]), before):
            is_one = isinstance(n, Const) and n.value == 1  # of several such dims one is as good as another
            return Path(d) if not is_one else None
    return None


def _count(shape: Sequence[Dim]) -> Dim:
    total: Dim = Const(1)
    for d in shape:
        total = total * d
    return total


def shift_of(call: Expr) -> Expr | None:
    """c of x + c, x − c and bias_add(x, c) whose result has the type of x; None for anything else."""
    if not isinstance(call, Call) or call.args[0].ty != call.ty or isinstance(call.args[0], Constant):
        return None
    if call.op is not add and call.op is not subtract and call.op is not bias_add:
        return None
    shift = call.args[1]
    is_rounding = isinstance(shift, Constant) and not bool((np.abs(shift.data) <= LARGE).all())
    return None if is_rounding else shift


def with_shift(call: Call, x: Expr, scale: Scale, inverse: bool) -> Expr | None:
    """x + c·s for `call`, which is x + c, or x + c/s; None where constants have no sound product."""
    if inverse and not isinstance(scale.value, Constant):
        return None  # it may be 0
    shift, factor = call.args[1], scale.spread()
    if call.op is bias_add:
        if scale.axis is not None and scale.axis != call.attrs.axis % scale.rank:
            return None
        factor = scale.value
    moved = _quotient(shift, factor) if inverse else _product(shift, factor)
    return None if moved is None else replace(call, args=(x, moved))


# ---------------------------------------------------------------------- contractions


@dataclass(frozen=True, slots=True)
class Contraction:
    """A contraction of data with a weight, and where the channels are.

    data, out: the dim of the data that is summed over, and that of the result's channels. rows, columns: the dims of
    the weight that the channels of the result and of the data run along. With groups, one of both (`split_rows`: the
    rows; else the columns) is a group's alone.
    """

    data: int
    out: int
    rows: int
    columns: int
    groups: int = 1
    split_rows: bool = False


def contraction(call: Expr) -> Contraction | None:
    """What `call` contracts; None where it does not, or not with the weight of one layer."""
    if not isinstance(call, Call) or not isinstance(call.ty, TensorType) or call.args[0] is call.args[-1]:
        return None
    last, a = call.ty.rank - 1, call.attrs
    if call.op in _CONVOLUTIONS or call.op in _TRANSPOSED:
        layout, kernel = a.out_layout or a.data_layout, a.kernel_layout
        if any(map(is_blocked, (layout, a.data_layout, kernel))):
            return None  # blocks of channels have dims of their own
        dims = (a.data_layout.index("C"), layout.index("C"), kernel.index("O"), kernel.index("I"))
        return Contraction(*dims, a.groups, split_rows=call.op in _TRANSPOSED)
    if call.op is dense:
        return Contraction(last, last, 0, 1)
    if call.op is nn_matmul or call.op is batch_matmul:
        ranks = [x.ty.rank for x in call.args if isinstance(x.ty, TensorType)]
        end = ranks[1] - 1
        rows, columns = (end - 1, end) if a.transpose_b else (end, end - 1)
        return Contraction(ranks[0] - 2 if a.transpose_a else ranks[0] - 1, last, rows, columns)
    if call.op is matmul:
        ranks = [x.ty.rank for x in call.args if isinstance(x.ty, TensorType)]
        return Contraction(ranks[0] - 1, last, 1, 0) if ranks[1] == 2 and ranks[0] >= 1 else None
    return None


def scaled(call: Call, scale: Scale, *, of_result: bool, computed: bool) -> Expr | None:
    """The weight of a contraction that gives s·call, or what `call` gives for s times its data.

    None where it is no constant unless `computed`, or the product is not sound.
    """
    found, weight = contraction(call), call.args[1]
    if found is None or not isinstance(weight.ty, TensorType) or weight.ty.dtype != _dtype(scale.value):
        return None
    if not (computed or isinstance(weight, Constant)):
        return None
    if scale.axis not in (None, found.out if of_result else found.data):
        return None
    factors = scale.value if scale.axis is None else _spread(found, weight.ty, scale.value, of_result)
    return None if factors is None else _product(weight, factors)


def with_weight(call: Call, data: Expr, weight: Expr) -> Call:
    """The contraction of other data with another weight of the same types."""
    is_known = isinstance(weight, Constant) or not getattr(call.attrs, "finite_weight", False)
    attrs = call.attrs if is_known else replace(call.attrs, finite_weight=False)
    return replace(call, args=(data, weight), attrs=attrs)


def _dtype(e: Expr) -> dt.DType | None:
    return e.ty.dtype if isinstance(e.ty, TensorType) else None


def _spread(found: Contraction, ty: TensorType, factors: Expr, of_result: bool) -> Expr | None:
    """One factor per channel of the result, or of the data, in a form that broadcasts to the weight."""
    mine, other = (found.rows, found.columns) if of_result else (found.columns, found.rows)
    if found.groups == 1 or found.split_rows is not of_result:
        return _reshaped(factors, [-1 if d == mine else 1 for d in range(ty.rank)])
    width, height = ty.shape[mine], ty.shape[other]
    if not isinstance(width, Const) or not isinstance(height, Const):
        return None
    matrix = _repeated(_reshaped(factors, (found.groups, int(width.value))), int(height.value) // found.groups)
    matrix = matrix if other < mine else _turned(matrix)
    sizes = {mine: int(width.value), other: int(height.value)}
    return _reshaped(matrix, [sizes.get(d, 1) for d in range(ty.rank)])
