"""Reductions, and the functions that combine some."""

from __future__ import annotations

from typing import Any

from legato.ir.expr import Expr
from legato.relay.expr import Tuple, TupleWrapper
from legato.relay.op._functions import function, namespace

__all__ = ["logsumexp", "mean_std", "mean_variance", "std", "variance"]

Axis = int | tuple[int, ...] | list[int] | None


def variance(
    data: Expr,
    axis: Axis = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Expr | None = None,
) -> Any:
    """The variance over `axis`, about `with_mean` if that is given (of the shape with `axis` as 1)."""
    mean = function("mean")(data, axis, True, exclude) if with_mean is None else with_mean
    return function("variance")(data, mean, axis, keepdims, exclude, unbiased)


def std(data: Expr, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False) -> Any:
    """The standard deviation over `axis`."""
    return function("sqrt")(variance(data, axis, keepdims, exclude, unbiased))


def mean_variance(
    data: Expr, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False
) -> TupleWrapper:
    """The mean and the variance over `axis`."""
    mean = function("mean")(data, axis, True, exclude)
    var = variance(data, axis, keepdims, exclude, unbiased, mean)
    shown = mean if keepdims else function("mean")(data, axis, False, exclude)
    return TupleWrapper(Tuple.build((shown, var)), 2)


def mean_std(data: Expr, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TupleWrapper:
    """The mean and the standard deviation over `axis`."""
    mean, var = mean_variance(data, axis, keepdims, exclude)
    return TupleWrapper(Tuple.build((mean, function("sqrt")(var))), 2)


def logsumexp(data: Expr, axis: Axis = None, keepdims: bool = False) -> Any:
    """log Σ exp over `axis`, about the largest element, so that nothing overflows."""
    largest = function("max")(data, axis, True)
    total = function("sum")(function("exp")(function("subtract")(data, largest)), axis, True)
    result = function("add")(function("log")(total), largest)
    return result if keepdims else function("squeeze")(result, axis)


__getattr__, __dir__ = namespace("", globals())
