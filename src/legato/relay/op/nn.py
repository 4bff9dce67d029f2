"""Operators of neural networks."""

from __future__ import annotations

from typing import Any

from legato.base.errors import TypeCheckError
from legato.ir.attrs import make_attrs
from legato.ir.expr import Expr
from legato.ops import table
from legato.relay.expr import TupleWrapper
from legato.relay.op._functions import function, namespace, typed_call

__all__ = ["contrib_conv2d_nchwc", "contrib_depthwise_conv2d_nchwc", "dropout_raw", "global_avg_pool1d",
           "global_avg_pool3d", "global_max_pool1d", "global_max_pool3d", "sparse_add", "sparse_dense",
           "sparse_transpose"]  # fmt: skip


def contrib_conv2d_nchwc(data: Expr, kernel: Expr, *args: Any, **attrs: Any) -> Any:
    """A convolution of data in blocks of channels; what follows is as in `conv2d`."""
    return function("nn.contrib_conv2d_NCHWc")(data, kernel, *args, **attrs)


def contrib_depthwise_conv2d_nchwc(data: Expr, kernel: Expr, *args: Any, **attrs: Any) -> Any:
    """A convolution channel by channel of data in blocks of them; what follows is as in `conv2d`."""
    return function("nn.contrib_depthwise_conv2d_NCHWc")(data, kernel, *args, **attrs)


def global_max_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Any:
    """The largest element of each channel."""
    return function("nn.adaptive_max_pool1d")(data, (1,), layout, out_layout)


def global_avg_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Any:
    """The mean of each channel."""
    return function("nn.adaptive_avg_pool1d")(data, (1,), layout, out_layout)


def global_max_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Any:
    """The largest element of each channel."""
    return function("nn.adaptive_max_pool3d")(data, (1, 1, 1), layout, out_layout)


def global_avg_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Any:
    """The mean of each channel."""
    return function("nn.adaptive_avg_pool3d")(data, (1, 1, 1), layout, out_layout)


def dropout_raw(data: Expr, rate: float = 0.5) -> TupleWrapper:
    """The call of dropout itself: its result and its mask."""
    record = table()["nn.dropout"]
    return TupleWrapper(typed_call(record, [data], make_attrs(record, {"rate": rate})), 2)


def sparse_dense(dense_mat: Expr, sparse_mat: Any, sparse_lhs: bool = False) -> Any:
    """The product of a matrix and a transposed sparse one, or with `sparse_lhs` the other way round.

    `sparse_mat` is (data, indices, indptr), or has these as attributes.
    """
    return function("nn.sparse_dense")(dense_mat, *_parts(sparse_mat), sparse_lhs)


def sparse_add(dense_mat: Expr, sparse_mat: Any) -> Any:
    """The sum of a matrix and a sparse one, (data, indices, indptr) or what has these as attributes."""
    return function("nn.sparse_add")(dense_mat, *_parts(sparse_mat))


def sparse_transpose(x: Any) -> TupleWrapper:
    """The transposed of a square sparse matrix, (data, indices, indptr) or what has these as attributes; so given."""
    return TupleWrapper(function("nn.sparse_transpose")(*_parts(x)), 3)


def _parts(matrix: Any) -> tuple[Any, ...]:
    if isinstance(matrix, tuple | list) and len(matrix) == 3:
        return tuple(matrix)
    parts = tuple(getattr(matrix, name, None) for name in ("data", "indices", "indptr"))
    if any(part is None for part in parts):
        raise TypeCheckError(f"a sparse matrix is data, indices and indptr, got a {type(matrix).__name__}",
                             hint="a tuple of three, or a matrix of scipy.sparse in CSR or BSR form")  # fmt: skip
    return parts


__getattr__, __dir__ = namespace("nn.", globals())
