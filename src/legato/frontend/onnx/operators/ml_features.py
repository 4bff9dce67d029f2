"""Operators of `ai.onnx.ml` that make features: scalers, encoders, choices, and what stands for missing values."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from legato.arith.expr import Const, const
from legato.base.dtype import float32, int64
from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx import scores as of
from legato.frontend.onnx.emitter import Emitter
from legato.ir.expr import Expr

DOMAIN = of.DOMAIN
_NORMS = ("MAX", "L1", "L2")
_MAPS = "maps from names to values"
_ROWS = "give the program the rows of numbers that they stand for"


def scaler(b: Emitter, x: Expr, *, offset: tuple[float, ...] = (), scale: tuple[float, ...] = ()) -> Expr:
    """(x − offset) · scale, with a number of each for a feature, or one for all."""
    y = b.to(x, of.wide_dtype(b, x))
    if offset:
        y = b.subtract(y, _each(b, y, offset, "offset"))
    return b.to(b.multiply(y, _each(b, y, scale, "scale")) if scale else y, float32)


def _each(b: Emitter, x: Expr, values: Sequence[float], what: str) -> Expr:
    """A constant that goes along the last dim, or is one for all."""
    if not b.rank(x):
        raise ImportModelError("the input has rank 0, wanted rows of features")
    if len(values) == 1:
        return b.like(values[0], x)
    b.require(b.dims_of(x)[-1], const(len(values)), f"elements of {what}")
    return b.constant(np.array(values, b.dtype(x).numpy))


def normalizer(b: Emitter, x: Expr, *, norm: str = "MAX") -> Expr:
    """Each row divided by its norm; one whose norm is 0 stays."""
    if norm not in _NORMS:
        raise ImportModelError(f"norm is {norm!r}, wanted one of {', '.join(_NORMS)}")
    of.rows(b, x)
    y = b.to(x, of.wide_dtype(b, x))
    if norm == "MAX":
        size = b.max(y, axis=(-1,), keepdims=True)
    elif norm == "L1":
        size = b.sum(b.abs(y), axis=(-1,), keepdims=True)
    else:
        size = b.sqrt(b.sum(b.multiply(y, y), axis=(-1,), keepdims=True))
    return b.to(b.divide(y, b.where(b.equal(size, b.like(0, size)), b.like(1, size), size)), float32)


def binarizer(b: Emitter, x: Expr, *, threshold: float = 0.0) -> Expr:
    """1 where an element is above the threshold, else 0."""
    return b.cast(b.greater(b.to(x, of.wide_dtype(b, x)), b.constant(threshold, of.wide_dtype(b, x))), dtype=b.dtype(x))


def imputer(
    b: Emitter,
    x: Expr,
    *,
    imputed_value_floats: tuple[float, ...] = (),
    imputed_value_int64s: tuple[int, ...] = (),
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Expr:
    """What equals one value, which may be NaN, replaced by a number for each feature, or one for all."""
    is_float = b.dtype(x).is_float
    values: Sequence[float] = imputed_value_floats if is_float else imputed_value_int64s
    if not values:
        raise ImportModelError(f"no values to put in place of others, of the kind of {b.dtype(x)}")
    if is_float and math.isnan(replaced_value_float):
        gone = b.isnan(x)
    else:
        gone = b.equal(x, b.like(replaced_value_float if is_float else replaced_value_int64, x))
    return b.where(gone, _each(b, x, values, "imputed values"), x)


def one_hot_encoder(
    b: Emitter,
    x: Expr,
    *,
    cats_int64s: tuple[int, ...] = (),
    cats_strings: tuple[str, ...] = (),
    zeros: bool = True,
) -> Expr:
    """A 1 at the place of each element's category; without `zeros` each must have one, which calls check."""
    if bool(cats_int64s) == bool(cats_strings):
        raise ImportModelError("an encoder wants cats_int64s or cats_strings")
    is_text = b.dtype(x).is_string
    if is_text != bool(cats_strings):
        raise ImportModelError(f"categories that elements of {b.dtype(x)} cannot be")
    names = np.array(cats_strings, object) if is_text else np.array(cats_int64s, np.int64)
    found = b.equal(b.expand_dims(x if is_text else b.to(x, int64), axis=-1), b.constant(names))
    found = b.cast(found, dtype=float32)
    if not zeros:
        unknown = b.equal(b.max(found, axis=(-1,)), b.constant(0, float32))
        count = b.sum(b.cast(unknown, dtype=int64), axis=tuple(range(b.rank(x))))
        b.require(b.dim(count, "elements of no category"), const(0), "elements of no category")
    return found


def array_feature_extractor(b: Emitter, x: Expr, indices: Expr) -> Expr:
    """Chosen elements of the last dim; of a vector, as one row."""
    if not b.rank(x):
        raise ImportModelError("the input has rank 0, wanted rows of features")
    x = of.rows(b, x) if b.rank(x) == 1 else x
    known, extent = b.array(indices), b.dims_of(x)[-1]
    if known is not None and isinstance(extent, Const) and not ((known >= 0) & (known < int(extent.value))).all():
        raise ImportModelError(f"features {known.ravel().tolist()} of {extent}")
    return b.take(x, b.reshape(indices, newshape=(-1,)), axis=b.rank(x) - 1, mode="clip")


def feature_vectorizer(b: Emitter, *inputs: Expr, inputdimensions: tuple[int, ...] = ()) -> Expr:
    """The features of all inputs behind each other."""
    parts = [b.to(of.rows(b, x), float32) for x in inputs]
    if not parts:
        raise ImportModelError("FeatureVectorizer without inputs")
    if inputdimensions and len(inputdimensions) != len(parts):
        raise ImportModelError(f"{len(inputdimensions)} inputdimensions of {len(parts)} inputs")
    for part, count in zip(parts, inputdimensions, strict=False):
        of.require_features(b, part, count)
    return b.concatenate(tuple(parts), axis=1)


def zip_map(
    b: Emitter,
    x: Expr,
    *,
    classlabels_int64s: tuple[int, ...] = (),
    classlabels_strings: tuple[str, ...] = (),
) -> Expr:
    """The matrix that the maps are of, whose columns have the keys: they are noted where it is an output."""
    keys = classlabels_int64s or classlabels_strings
    if not keys or (classlabels_int64s and classlabels_strings):
        raise ImportModelError("ZipMap wants classlabels_int64s or classlabels_strings")
    found = of.rows(b, x)
    of.require_features(b, found, len(keys))
    b.keys[id(found)] = found, keys
    return found


def dict_vectorizer(
    b: Emitter, x: Expr, *, int64_vocabulary: tuple[int, ...] = (), string_vocabulary: tuple[str, ...] = ()
) -> Expr:
    raise UnsupportedError(_MAPS, hint=_ROWS)


def cast_map(b: Emitter, x: Expr, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE", max_map: int = 1) -> Expr:
    raise UnsupportedError(_MAPS, hint=_ROWS)
