"""Sparse tensors of a file, which are made dense: what they say is checked before anything is allocated."""

from __future__ import annotations

import math

import numpy as np

from legato.base.errors import ImportModelError, UnsupportedError
from legato.frontend.onnx.external import Folder
from legato.frontend.onnx.proto import SparseTensorProto
from legato.frontend.onnx.tensors import Array, element_count, element_type, to_array

__all__ = ["MAX_DENSE", "to_dense"]

MAX_DENSE = 1 << 30  # bytes of all tensors of a model that were sparse


def to_dense(sparse: SparseTensorProto, folder: Folder | None, what: str, most: int = MAX_DENSE) -> Array:
    """All elements of a tensor of which the file has those that are not zero, or of strings not empty.

    Their places are subscripts, a row for each, or positions in the flat tensor. ImportModelError where places and
    shape disagree, UnsupportedError for more than `most` bytes; `what` names the tensor in messages.
    """
    shape, dtype = tuple(sparse.dims), element_type(sparse.values.data_type, what)
    count = element_count(shape, what)
    if count * dtype.bytes > most:
        has = f"{what}: a sparse tensor of {count * dtype.bytes} bytes when it is dense"
        others = f", of which {MAX_DENSE - most} are others'" if most < MAX_DENSE else ""
        raise UnsupportedError(
            f"{has}; at most {MAX_DENSE} are made of a model's sparse tensors{others}",
            hint="save the model with the tensor dense",
        )
    values = to_array(sparse.values, folder, what)
    if values.ndim != 1 or len(values) > count:
        raise ImportModelError(f"{what}: values of shape {values.shape} for {count} elements")
    dense = np.full(count, "", object) if dtype.is_string else np.zeros(count, values.dtype)
    dense[_positions(sparse, shape, len(values), folder, what)] = values
    return dense.reshape(shape)


def _positions(
    sparse: SparseTensorProto, shape: tuple[int, ...], count: int, folder: Folder | None, what: str
) -> Array:
    """Where the values are in the flat tensor."""
    if not count and not sparse.indices.data_type:  # left out
        return np.zeros(0, np.int64)
    places = to_array(sparse.indices, folder, f"the indices of {what}")
    if places.dtype != np.int64 or places.shape not in ((count,), (count, len(shape))):
        wanted = f"wanted int64 of shape ({count},) or ({count}, {len(shape)})"
        raise ImportModelError(f"{what}: indices of dtype {places.dtype} and shape {places.shape}, {wanted}")
    limits = np.array(shape if places.ndim == 2 else math.prod(shape), np.int64)
    if ((places < 0) | (places >= limits)).any():
        raise ImportModelError(f"{what}: an index outside of shape {shape}")
    if places.ndim == 2:
        places = places @ np.array([math.prod(shape[n + 1 :]) for n in range(len(shape))], np.int64)
    if len(np.unique(places)) < count:
        raise ImportModelError(f"{what}: an index is there twice")
    return places
