"""Matrices by their blocks, as nn.sparse_dense takes them, and the calls that can take such ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.infer.builder import Builder
from legato.ir.expr import Call, Constant, Expr, constant
from legato.ir.types import TensorType
from legato.ops._rules import product
from legato.ops._window import pads, spread
from legato.ops.conv import conv2d
from legato.ops.linalg import dense

__all__ = ["Blocks", "blocks_of", "conv_matrix", "dense_data", "has_blocks", "odd_kernel", "require_blocks",
           "sparse_constants", "sparse_conv", "sparse_product", "weight_of"]  # fmt: skip

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, slots=True)
class Blocks:
    """The blocks of a matrix that are not zero (blocks, height, width), the column of each, and where rows begin."""

    data: Array
    indices: Array
    indptr: Array


def require_blocks(height: int, width: int, sparsity: float) -> None:
    """CompileError for blocks that there are not, and for a part of a matrix that is none."""
    if height < 1 or width < 1:
        raise CompileError(f"there are no blocks of {height} × {width}", hint="give numbers of at least 1")
    if not 0 <= sparsity <= 1:
        raise CompileError(f"sparsity is {sparsity}, wanted a part of the matrix: 0.8, say")


def has_blocks(matrix: Array, height: int, width: int) -> bool:
    """Whether blocks of height × width divide a matrix."""
    if height < 1 or width < 1:
        raise CompileError(f"there are no blocks of {height} × {width}", hint="give numbers of at least 1")
    return not matrix.shape[0] % height and not matrix.shape[1] % width


def blocks_of(matrix: Array, height: int, width: int) -> Blocks:
    """`matrix`, which such blocks divide, by its blocks of height × width that have an element that is not 0."""
    rows, columns = matrix.shape
    blocks = matrix.reshape(rows // height, height, columns // width, width).transpose(0, 2, 1, 3)
    is_there = (blocks != 0).any((2, 3))
    begins = np.concatenate([[0], np.cumsum(is_there.sum(1))])
    columns_of = np.nonzero(is_there)[1]
    return Blocks(np.ascontiguousarray(blocks[is_there]), columns_of.astype(np.int32), begins.astype(np.int32))


def sparse_constants(matrix: Array, height: int, width: int, least: float) -> list[Constant] | None:
    """The parts of a matrix of which at least `least` is in blocks of zeros; None for others."""
    if not matrix.size or not has_blocks(matrix, height, width):
        return None
    found = blocks_of(matrix, height, width)
    if 1 - found.data.size / matrix.size < least:
        return None
    data = found.data.reshape(-1) if height == width == 1 else found.data
    return [constant(part) for part in (data, found.indices, found.indptr)]


def weight_of(call: Expr, op: Expr) -> Array | None:
    """The constant weight of a call of `op`; None for anything else."""
    if not isinstance(call, Call) or call.op is not op:
        return None
    weight = call.args[1]
    return weight.data if isinstance(weight, Constant) else None


# ------------------------------------------------------------------------------- nn.dense


def dense_data(call: Expr) -> TensorType | None:
    """The type of the data of an nn.dense that nn.sparse_dense can do as well; None for anything else."""
    if not isinstance(call, Call) or call.op is not dense:
        return None
    data, weight = (a.ty for a in call.args)
    if not isinstance(data, TensorType) or not isinstance(weight, TensorType) or data.dtype != weight.dtype:
        return None
    return data if call.attrs.out_dtype in ("", None, data.dtype) and data.rank else None


def sparse_product(call: Call, matrix: Sequence[Expr]) -> Expr:
    """What `call`, of nn.dense, gives with a sparse weight."""
    b, ty = Builder(span=call.span), dense_data(call)
    assert ty is not None
    *outer, columns = ty.shape
    if ty.rank == 2:
        return b.nn.sparse_dense(call.args[0], *matrix)
    rows = b.reshape(call.args[0], newshape=(product(outer), columns), allowzero=True)
    made = b.nn.sparse_dense(rows, *matrix)
    assert isinstance(made.ty, TensorType)
    return b.reshape(made, newshape=(*outer, made.ty.shape[1]), allowzero=True)


# ------------------------------------------------------------------------------- nn.conv2d


def odd_kernel(call: Expr) -> tuple[int, int] | None:
    """The kernel's size, for a convolution that nn.sparse_conv2d can do as well; None for anything else."""
    if not isinstance(call, Call) or call.op is not conv2d:
        return None
    own, data, weight = call.attrs, call.args[0].ty, call.args[1].ty
    if not isinstance(weight, TensorType) or not weight.is_static or not isinstance(data, TensorType):
        return None
    shape = weight.static_shape()
    kh, kw = (shape[own.kernel_layout.index(letter)] for letter in "HW")
    plain = own.data_layout in ("NCHW", "NHWC") and own.out_layout in ("", own.data_layout) and own.groups == 1
    plain &= {*spread(own.strides, 2), *spread(own.dilation, 2)} == {1} and kh % 2 == kw % 2 == 1
    plain &= pads(own.padding, 2) == ((kh // 2, kh // 2), (kw // 2, kw // 2))
    dtypes = {data.dtype, weight.dtype} | ({own.out_dtype} if own.out_dtype else set())
    return (kh, kw) if plain and len(dtypes) == 1 else None


def conv_matrix(weight: Array, kernel_layout: str, data_layout: str) -> Array:
    """The filters of a convolution, one a row, their elements in the order of nn.sparse_conv2d."""
    order = "OIHW" if data_layout == "NCHW" else "OHWI"
    turned = weight.transpose([kernel_layout.index(letter) for letter in order])
    return turned.reshape(len(turned), -1)


def sparse_conv(call: Call, matrix: Sequence[Expr]) -> Expr:
    """What `call`, of nn.conv2d, gives with a sparse weight."""
    kernel = odd_kernel(call)
    assert kernel is not None
    sparse = Builder(span=call.span).nn.sparse_conv2d
    return sparse(call.args[0], *matrix, layout=call.attrs.data_layout, kernel_size=kernel)
