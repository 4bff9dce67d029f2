"""Linear models and support vector machines of `ai.onnx.ml`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from legato.base.dtype import float32, float64
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx import scores as of
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.tensors import Array
from legato.ir.expr import Expr

DOMAIN = of.DOMAIN
_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_MOST = 1 << 26  # weights of pairs of classes
_SURE = 1e-7  # probabilities of pairs are not nearer to 0 or 1


# ------------------------------------------------------------------------------- linear models


def linear_regressor(
    b: Emitter,
    x: Expr,
    *,
    coefficients: tuple[float, ...] = (),
    intercepts: tuple[float, ...] = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Expr:
    found = _linear(b, of.wide_rows(b, x), of.matrix(coefficients, targets, "coefficients"), intercepts)
    return b.to(of.transformed(b, found, post_transform), float32)


def linear_classifier(
    b: Emitter,
    x: Expr,
    *,
    classlabels_ints: tuple[int, ...] = (),
    classlabels_strings: tuple[str, ...] = (),
    coefficients: tuple[float, ...],
    intercepts: tuple[float, ...] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Expr, Expr]:
    """The label of each row, and the scores of its classes: of two, the file may have those of the second alone."""
    labels = of.labels(classlabels_ints, classlabels_strings)
    data = of.wide_rows(b, x)
    count = len(intercepts)
    if not count:
        features = b.known(b.dims_of(data)[1], "the number of features")
        count = max(len(coefficients) // max(features, 1), 1)
    found = _linear(b, data, of.matrix(coefficients, count, "coefficients"), intercepts)
    if count == 1 and len(labels) == 2:
        chosen, found = of.second(b, found, 0.0), of.both(b, found, post_transform, complement=True)
    elif count == len(labels):
        chosen, found = of.highest(b, found), of.transformed(b, found, post_transform)
    else:
        raise ImportModelError(f"scores of {count} classes, but {len(labels)} labels")
    return of.labelled(b, labels, chosen), b.to(found, float32)


def _linear(b: Emitter, x: Expr, weights: Array, intercepts: Sequence[float]) -> Expr:
    """x · weightsᵀ + intercepts."""
    of.require_features(b, x, weights.shape[1])
    dtype = b.dtype(x).numpy
    found = b.nn.dense(x, b.constant(weights.astype(dtype)))
    if not intercepts:
        return found
    if len(intercepts) not in (1, len(weights)):
        raise ImportModelError(f"{len(intercepts)} intercepts, wanted {len(weights)}")
    return b.add(found, b.constant(np.array(intercepts, dtype)))


# ------------------------------------------------------------------------------- support vector machines


def svm_regressor(
    b: Emitter,
    x: Expr,
    *,
    coefficients: tuple[float, ...] = (),
    kernel_params: tuple[float, ...] = (),
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: bool = False,
    post_transform: str = "NONE",
    rho: tuple[float, ...] = (),
    support_vectors: tuple[float, ...] = (),
) -> Expr:
    """With `one_class`, 1 for a row that belongs to the class, −1 for another."""
    data = of.wide_rows(b, x)
    if len(rho) != 1:
        raise ImportModelError(f"{len(rho)} elements of rho, wanted one")
    if n_supports:
        near = _kernel(b, data, of.matrix(support_vectors, n_supports, "support_vectors"), kernel_type, kernel_params)
        found = _summed(b, near, of.matrix(coefficients, 1, "coefficients"), rho)
    else:
        found = _linear(b, data, of.matrix(coefficients, 1, "coefficients"), rho)
    if one_class:
        inside = b.greater(found, b.like(0, found))
        return b.where(inside, b.constant(1, float32), b.constant(-1, float32))
    return b.to(of.transformed(b, found, post_transform), float32)


def svm_classifier(
    b: Emitter,
    x: Expr,
    *,
    classlabels_ints: tuple[int, ...] = (),
    classlabels_strings: tuple[str, ...] = (),
    coefficients: tuple[float, ...],
    kernel_params: tuple[float, ...] = (),
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: tuple[float, ...] = (),
    prob_b: tuple[float, ...] = (),
    rho: tuple[float, ...],
    support_vectors: tuple[float, ...] = (),
    vectors_per_class: tuple[int, ...] = (),
) -> tuple[Expr, Expr]:
    """The label of each row, and its scores: of pairs of classes, of which the better of most pairs has the label, or
    of classes where the file has what makes probabilities."""
    labels = of.labels(classlabels_ints, classlabels_strings)
    data, classes = of.wide_rows(b, x), len(labels)
    if not vectors_per_class:
        return _of_classes(b, data, labels, coefficients, rho, post_transform)
    if len(vectors_per_class) != classes or min(vectors_per_class) < 0 or classes < 2:
        raise ImportModelError(f"vectors_per_class {vectors_per_class} of {classes} classes")
    count = classes * (classes - 1) // 2
    if len(rho) != count or (len(prob_a), len(prob_b)) not in ((0, 0), (count, count)):
        raise ImportModelError(f"{len(rho)}, {len(prob_a)} and {len(prob_b)} elements of rho, prob_a and prob_b, "
                               f"wanted one for each of {count} pairs of classes")  # fmt: skip
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    vectors = of.matrix(support_vectors, sum(vectors_per_class), "support_vectors")
    near = _kernel(b, data, vectors, kernel_type, kernel_params)
    weights = _pair_weights(of.matrix(coefficients, classes - 1, "coefficients"), vectors_per_class, pairs)
    found = _summed(b, near, weights, rho)
    label = of.labelled(b, labels, _voted(b, found, pairs, classes))
    if prob_a:
        return label, b.to(of.transformed(b, _probable(b, found, prob_a, prob_b, pairs, classes), post_transform),
                           float32)  # fmt: skip
    if classes == 2:
        return label, b.to(of.both(b, found, post_transform, complement=post_transform != "NONE"), float32)
    return label, b.to(of.transformed(b, found, post_transform), float32)


def _of_classes(
    b: Emitter, x: Expr, labels: Array, coefficients: Sequence[float], rho: Sequence[float], transform: str
) -> tuple[Expr, Expr]:
    """A machine without vectors: a linear score for each class. Of two, it is the second where a score says so."""
    weights = of.matrix(coefficients, len(labels), "coefficients")
    found = _linear(b, x, weights, rho[:1])
    chosen = of.highest(b, found)
    if len(labels) == 2:
        top, least = b.max(found, axis=(1,)), 0.5 if bool((weights >= 0).all()) else 0.0
        sure = b.greater_equal(top, b.like(least, top)) if least else b.greater(top, b.like(least, top))
        chosen = b.where(sure, b.like(1, chosen), chosen)
    return of.labelled(b, labels, chosen), b.to(of.transformed(b, found, transform), float32)


def _kernel(b: Emitter, x: Expr, vectors: Array, kind: str, params: Sequence[float]) -> Expr:
    """How near each row is to each support vector; products, which become large, are float64."""
    if kind not in _KERNELS:
        raise ImportModelError(f"kernel_type is {kind!r}, wanted one of {', '.join(_KERNELS)}")
    if len(params) != 3 and kind != "LINEAR":
        raise ImportModelError(f"{len(params)} kernel_params, wanted gamma, coef0 and degree")
    of.require_features(b, x, vectors.shape[1])
    if kind == "RBF":
        weights = b.constant(vectors.astype(b.dtype(x).numpy))
        apart = b.subtract(b.expand_dims(x, axis=1), b.expand_dims(weights, axis=0))
        square = b.sum(b.multiply(apart, apart), axis=(2,))
        return b.exp(b.multiply(square, b.like(-params[0], square)))
    found = b.nn.dense(b.to(x, float64), b.constant(vectors.astype(np.float64)))
    if kind == "LINEAR":
        return found
    found = b.add(b.multiply(found, b.like(params[0], found)), b.like(params[1], found))
    return b.tanh(found) if kind == "SIGMOID" else b.power(found, b.like(params[2], found))


def _summed(b: Emitter, near: Expr, weights: Array, rho: Sequence[float]) -> Expr:
    """near · weightsᵀ + rho, as float64: large terms of both signs add up to what decides."""
    if b.dims_of(near)[1] != weights.shape[1]:
        raise ImportModelError(f"coefficients of {weights.shape[1]} support vectors, of {b.dims_of(near)[1]}")
    found = b.nn.dense(b.to(near, float64), b.constant(weights.astype(np.float64)))
    return b.add(found, b.constant(np.array(rho, np.float32).astype(np.float64)))


def _pair_weights(coefficients: Array, counts: Sequence[int], pairs: Sequence[tuple[int, int]]) -> Array:
    """The weights of all vectors in the score of each pair: those of other classes have none. Row j − 1 of the
    coefficients is for the pairs of a class with class j behind it, row i for those with class i before it."""
    ends = np.cumsum([0, *counts])
    if len(pairs) * int(ends[-1]) > _MOST:
        raise UnsupportedError(
            f"{len(pairs)} pairs of classes with {ends[-1]} support vectors: {_MOST} weights at most"
        )
    found = np.zeros((len(pairs), int(ends[-1])), np.float32)
    if coefficients.shape[1] != ends[-1]:
        raise ImportModelError(f"coefficients of {coefficients.shape[1]} support vectors, of {ends[-1]}")
    for n, (i, j) in enumerate(pairs):
        first, other = slice(ends[i], ends[i + 1]), slice(ends[j], ends[j + 1])
        found[n, first], found[n, other] = coefficients[j - 1, first], coefficients[i, other]
    return found


def _voted(b: Emitter, found: Expr, pairs: Sequence[tuple[int, int]], classes: int) -> Expr:
    """The class that is the better one of most pairs."""
    wins, losses = (np.eye(classes, dtype=np.float32)[[pair[n] for pair in pairs]] for n in (0, 1))
    better = b.cast(b.greater(found, b.like(0, found)), dtype=float32)
    votes = b.nn.dense(better, b.constant(np.ascontiguousarray((wins - losses).T)))
    return of.highest(b, b.add(votes, b.constant(losses.sum(axis=0))))


def _probable(
    b: Emitter, found: Expr, slopes: Sequence[float], shifts: Sequence[float], pairs: Sequence[tuple[int, int]],
    classes: int,
) -> Expr:  # fmt: skip
    """The probabilities of the classes, from those of pairs by Platt's sigmoid."""
    dtype = b.dtype(found).numpy
    line = b.add(b.multiply(found, b.constant(np.array(slopes, dtype))), b.constant(np.array(shifts, dtype)))
    first = b.clip(b.sigmoid(b.negative(line)), a_min=_SURE, a_max=1 - _SURE)
    parts = (first, b.subtract(b.like(1, first), first), b.columns(b.zeros_like(first), 0, 1))
    places = np.full((classes, classes), 2 * len(pairs))
    for n, (i, j) in enumerate(pairs):
        places[i, j], places[j, i] = n, len(pairs) + n
    square = b.take(b.concatenate(parts, axis=1), b.constant(places), axis=1, mode="clip")
    return b.ml.pairwise_coupling(square)
