"""Reductions. Their axes became an input with operator set 18 (of ReduceSum with 13)."""

from __future__ import annotations

from collections.abc import Callable

from legato.base.dtype import float64, int64
from legato.frontend.onnx.axes import over_axes
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

Axes = tuple[int, ...] | None
_Reduce = Callable[[Emitter, Expr, tuple[int, ...], bool], Expr]


def _over(b: Emitter, x: Expr, axes: Axes, keepdims: bool, reduce: _Reduce, noop: bool = False) -> Expr:
    """No axes mean all of them, or, with `noop`, none."""
    rank = b.rank(x)
    along = tuple(b.axis(a, rank) for a in axes or ())
    return reduce(b, x, along or (() if noop else tuple(range(rank))), keepdims)


def _over_given(b: Emitter, x: Expr, axes: Expr | None, keepdims: bool, reduce: _Reduce, noop: bool) -> Expr:
    if axes is None:
        return _over(b, x, None, keepdims, reduce, noop)
    return over_axes(b, x, axes, lambda y, found: _over(b, y, found, keepdims, reduce, noop))


# ------------------------------------------------------------------ what is reduced


def _sum(b: Emitter, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    return b.sum(x, axis=axes, keepdims=keep)


def _mean(b: Emitter, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    return b.mean(x, axis=axes, keepdims=keep)


def _prod(b: Emitter, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    return b.prod(x, axis=axes, keepdims=keep)


def _max(b: Emitter, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    return b.call("any" if b.dtype(x).is_bool else "max", x, axis=axes, keepdims=keep)


def _min(b: Emitter, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    return b.call("all" if b.dtype(x).is_bool else "min", x, axis=axes, keepdims=keep)


def _l1(b: Emitter, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    return _sum(b, b.abs(x), axes, keep)


def _sum_square(b: Emitter, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    wide = b.wide(x)
    return b.to(_sum(b, b.multiply(wide, wide), axes, keep), b.dtype(x))


def _real(b: Emitter, x: Expr) -> Expr:
    """`x` in floats: integers have roots and logarithms in float64, of which the integer part is the result."""
    return b.wide(x) if b.dtype(x).is_float else b.to(x, float64)


def _l2(b: Emitter, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    return b.to(b.sqrt(_sum_square(b, _real(b, x), axes, keep)), b.dtype(x))


def _log_sum(b: Emitter, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    return b.to(b.log(_sum(b, _real(b, x), axes, keep)), b.dtype(x))


def _log_sum_exp(b: Emitter, x: Expr, axes: tuple[int, ...], keep: bool) -> Expr:
    """log Σ eˣ = m + log Σ e^(x − m), with the maximum m where it is finite."""
    real = _real(b, x)
    peak = b.max(real, axis=axes, keepdims=True)
    m = b.where(b.isfinite(peak), peak, b.like(0, real))
    total = b.log(_sum(b, b.exp(b.subtract(real, m)), axes, keep))
    return b.to(b.add(total, m if keep or not axes else b.squeeze(m, axis=axes)), b.dtype(x))


# ------------------------------------------------------------------ ONNX's operators


def reduce_sum(b: Emitter, x: Expr, *, axes: Axes = None, keepdims: bool = True) -> Expr:
    return _over(b, x, axes, keepdims, _sum)


def reduce_sum_13(
    b: Emitter, x: Expr, axes: Expr | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Expr:
    return _over_given(b, x, axes, keepdims, _sum, noop_with_empty_axes)


def reduce_mean(b: Emitter, x: Expr, *, axes: Axes = None, keepdims: bool = True) -> Expr:
    return _over(b, x, axes, keepdims, _mean)


def reduce_mean_18(
    b: Emitter, x: Expr, axes: Expr | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Expr:
    return _over_given(b, x, axes, keepdims, _mean, noop_with_empty_axes)


def reduce_prod(b: Emitter, x: Expr, *, axes: Axes = None, keepdims: bool = True) -> Expr:
    return _over(b, x, axes, keepdims, _prod)


def reduce_prod_18(
    b: Emitter, x: Expr, axes: Expr | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Expr:
    return _over_given(b, x, axes, keepdims, _prod, noop_with_empty_axes)


def reduce_max(b: Emitter, x: Expr, *, axes: Axes = None, keepdims: bool = True) -> Expr:
    return _over(b, x, axes, keepdims, _max)


def reduce_max_18(
    b: Emitter, x: Expr, axes: Expr | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Expr:
    return _over_given(b, x, axes, keepdims, _max, noop_with_empty_axes)


def reduce_min(b: Emitter, x: Expr, *, axes: Axes = None, keepdims: bool = True) -> Expr:
    return _over(b, x, axes, keepdims, _min)


def reduce_min_18(
    b: Emitter, x: Expr, axes: Expr | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Expr:
    return _over_given(b, x, axes, keepdims, _min, noop_with_empty_axes)


def reduce_l1(b: Emitter, x: Expr, *, axes: Axes = None, keepdims: bool = True) -> Expr:
    return _over(b, x, axes, keepdims, _l1)


def reduce_l1_18(
    b: Emitter, x: Expr, axes: Expr | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Expr:
    return _over_given(b, x, axes, keepdims, _l1, noop_with_empty_axes)


def reduce_l2(b: Emitter, x: Expr, *, axes: Axes = None, keepdims: bool = True) -> Expr:
    return _over(b, x, axes, keepdims, _l2)


def reduce_l2_18(
    b: Emitter, x: Expr, axes: Expr | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Expr:
    return _over_given(b, x, axes, keepdims, _l2, noop_with_empty_axes)


def reduce_sum_square(b: Emitter, x: Expr, *, axes: Axes = None, keepdims: bool = True) -> Expr:
    return _over(b, x, axes, keepdims, _sum_square)


def reduce_sum_square_18(
    b: Emitter, x: Expr, axes: Expr | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Expr:
    return _over_given(b, x, axes, keepdims, _sum_square, noop_with_empty_axes)


def reduce_log_sum(b: Emitter, x: Expr, *, axes: Axes = None, keepdims: bool = True) -> Expr:
    return _over(b, x, axes, keepdims, _log_sum)


def reduce_log_sum_18(
    b: Emitter, x: Expr, axes: Expr | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Expr:
    return _over_given(b, x, axes, keepdims, _log_sum, noop_with_empty_axes)


def reduce_log_sum_exp(b: Emitter, x: Expr, *, axes: Axes = None, keepdims: bool = True) -> Expr:
    return _over(b, x, axes, keepdims, _log_sum_exp)


def reduce_log_sum_exp_18(
    b: Emitter, x: Expr, axes: Expr | None = None, *, keepdims: bool = True, noop_with_empty_axes: bool = False
) -> Expr:
    return _over_given(b, x, axes, keepdims, _log_sum_exp, noop_with_empty_axes)


def arg_max(b: Emitter, x: Expr, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False) -> Expr:
    return _arg(b, x, "argmax", axis, keepdims, select_last_index)


def arg_min(b: Emitter, x: Expr, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False) -> Expr:
    return _arg(b, x, "argmin", axis, keepdims, select_last_index)


def _arg(b: Emitter, x: Expr, name: str, axis: int, keepdims: bool, last: bool) -> Expr:
    along = (b.axis(axis, b.rank(x)),)
    return b.to(b.call(name, x, axis=along, keepdims=keepdims, select_last_index=last), int64)
