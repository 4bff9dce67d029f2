"""What the operators of `ai.onnx.ml` share: rows of numbers, transforms of scores, labels of classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from legato.arith.expr import const, lt
from legato.arith.prove import prove
from legato.base.dtype import DType, float32, float64, int64
from legato.base.errors import ImportModelError
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.tensors import Array
from legato.ir.expr import Expr
from legato.ops._rules import sides_of_least

__all__ = ["DOMAIN", "TRANSFORMS", "both", "highest", "labelled", "labels", "matrix", "require_features", "rows",
           "second", "transformed", "wide_dtype", "wide_rows"]  # fmt: skip

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_TINY = 1e-7  # scores nearer to 0 count as 0 in SOFTMAX_ZERO
_ERF = 0.147  # of Winitzki's formula for the error function, from which PROBIT is


# ------------------------------------------------------------------------------- rows


def rows(b: Emitter, x: Expr) -> Expr:
    """`x` as a matrix of rows: a vector is one."""
    if b.rank(x) == 1:
        return b.expand_dims(x, axis=0)
    if b.rank(x) != 2:
        raise ImportModelError(f"the input has rank {b.rank(x)}, wanted 1 or 2: rows of features")
    return x


def wide_dtype(b: Emitter, x: Expr) -> DType:
    """What features are computed in: float64 if they are that, else float32."""
    return float64 if b.dtype(x) == float64 else float32


def wide_rows(b: Emitter, x: Expr, *, double: bool = False) -> Expr:
    """The rows in their wide dtype; with `double`, as float64."""
    return b.to(rows(b, x), float64 if double else wide_dtype(b, x))


def matrix(values: Sequence[float], count: int, what: str) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """A list of coefficients as `count` rows."""
    if count < 1 or not values or len(values) % count:
        raise ImportModelError(f"{len(values)} {what} cannot be those of {count} rows")
    return np.array(values, np.float32).reshape(count, -1)


def require_features(b: Emitter, x: Expr, count: int, *, exactly: bool = True) -> None:
    """The rows must have `count` features, or at least as many: calls check it where it is not known."""
    d = b.dims_of(x)[1]
    if not exactly and prove(lt(d, count)):
        raise ImportModelError(f"rows of {d} features, wanted {count} or more")
    b.require(*((d, const(count)) if exactly else sides_of_least(d, const(max(count, 1)))), "features of a row")


# ------------------------------------------------------------------------------- scores


def transformed(b: Emitter, scores: Expr, how: str) -> Expr:
    """The scores of a row, transformed together."""
    if how not in TRANSFORMS:
        raise ImportModelError(f"post_transform is {how!r}, wanted one of {', '.join(TRANSFORMS)}")
    found: dict[str, Callable[[], Expr]] = {
        "NONE": lambda: scores,
        "SOFTMAX": lambda: b.nn.softmax(scores, axis=-1),
        "LOGISTIC": lambda: b.sigmoid(scores),
        "SOFTMAX_ZERO": lambda: _softmax_zero(b, scores),
        "PROBIT": lambda: _probit(b, scores),
    }
    return found[how]()


def _softmax_zero(b: Emitter, x: Expr) -> Expr:
    """The softmax of the scores that are not 0; the others stay 0."""
    top = b.max(x, axis=(-1,), keepdims=True)
    counts = b.greater(b.abs(x), b.like(_TINY, x))
    e = b.where(counts, b.exp(b.subtract(x, top)), b.like(0, x))
    total = b.sum(e, axis=(-1,), keepdims=True)
    return b.divide(e, b.where(b.equal(total, b.like(0, x)), b.like(1, x), total))


def _probit(b: Emitter, x: Expr) -> Expr:
    """√2 · erf⁻¹(2x − 1) by Winitzki's formula, as ONNX has it."""

    def times(v: Expr, factor: float) -> Expr:
        return b.multiply(v, b.like(factor, v))

    y = b.subtract(times(x, 2), b.like(1, x))
    log = b.log(b.multiply(b.subtract(b.like(1, y), y), b.add(b.like(1, y), y)))
    v = b.add(times(log, 0.5), b.like(2 / (math.pi * _ERF), log))
    root = b.sqrt(b.subtract(b.multiply(v, v), times(log, 1 / _ERF)))
    size = times(b.sqrt(b.subtract(root, v)), math.sqrt(2))
    return b.where(b.less(y, b.like(0, y)), b.negative(size), size)


def both(b: Emitter, score: Expr, how: str, *, complement: bool) -> Expr:
    """Of the score of the second of two classes, those of both, transformed: 1 − s and s, or −s and s.

    Only LOGISTIC and PROBIT mean something of one score; LOGISTIC always is of −s and s.
    """
    transformed(b, score, how)  # refuses what is no transform
    away = b.negative(score)
    if complement and how != "LOGISTIC":
        away = b.add(away, b.like(1, score))
    pair = b.concatenate((away, score), axis=1)
    return transformed(b, pair, how) if how in ("LOGISTIC", "PROBIT") else pair


# ------------------------------------------------------------------------------- labels


def labels(numbers: Sequence[int], texts: Sequence[str]) -> Array:
    """The labels of classes: numbers, or strings."""
    if numbers and texts:
        raise ImportModelError("labels are given as numbers and as strings")
    if not numbers and not texts:
        raise ImportModelError("a classifier without labels")
    return np.array(texts, object) if texts else np.array(numbers, np.int64)


def highest(b: Emitter, scores: Expr) -> Expr:
    """The number of the class with the highest score, of equal ones the first."""
    return b.to(b.argmax(scores, axis=(1,)), int64)


def labelled(b: Emitter, names: Array, classes: Expr) -> Expr:
    """The labels of classes, given by number."""
    if names.dtype == np.int64 and np.array_equal(names, np.arange(len(names))):
        return b.to(classes, int64)
    return b.take(b.constant(names), classes, axis=0, mode="clip")


def second(b: Emitter, score: Expr, least: float) -> Expr:
    """The number, 0 or 1, of the class of two: 1 where the score of the second is above `least`."""
    above = b.greater(score, b.like(least, score))
    return b.cast(b.squeeze(above, axis=(1,)), dtype=int64)
