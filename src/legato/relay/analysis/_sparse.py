"""Which parameters are mostly zero: what `sparse_dense` and `sparse_conv2d` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, NamedTuple

import numpy as np

from legato.base.arrays import as_array
from legato.base.errors import TypeCheckError
from legato.base.kinds import require, require_integer, require_mapping, require_sequence
from legato.base.node import post_order
from legato.ir.expr import Call, Expr, Var
from legato.ir.op import Op
from legato.ir.types import TensorType

__all__ = ["SparseAnalysisResult", "block_of", "replaced", "weights"]

Array = np.ndarray[Any, Any]


class SparseAnalysisResult(NamedTuple):
    """The names of parameters, and of each the shape of its blocks and the extents of indices and indptr."""

    weight_name: list[str]
    weight_shape: list[list[int]]


def block_of(size: Any) -> tuple[int, int]:
    """Height and width of blocks, as they are given. CompileError for anything but two integers."""
    found = require_sequence(size, "the size of blocks", "(height, width)")
    require(len(found) == 2, size, "the size of blocks", "(height, width)")
    height, width = (require_integer(n, "the size of blocks", "two integers") for n in found)
    return height, width


def weights(expr: Expr, op_name: str, params: Mapping[str, Any]) -> Iterator[tuple[str, Call, Array]]:
    """The parameters that calls of an operator have as weights: name, first of these calls, array.

    TypeCheckError for arrays of another rank, CompileError for what is no expression or has no parameters.
    """
    require(isinstance(expr, Expr), expr, "the program", "an expression")
    require_mapping(params, "parameters", "arrays by name")
    found: dict[str, Call] = {}
    for node in post_order([expr]):
        if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == op_name:
            weight = node.args[1]
            if isinstance(weight, Var) and weight.name in params:
                found.setdefault(weight.name, node)
    for name, call in found.items():
        array, ty = as_array(params[name], f"parameter {name!r}", TypeCheckError), call.args[1].ty
        if isinstance(ty, TensorType) and array.ndim != ty.rank:
            raise TypeCheckError(f"parameter {name!r} is {array.dtype}{list(array.shape)}, wanted {ty}")
        yield name, call, array


def replaced(
    params: MutableMapping[str, Any], matrices: Mapping[str, tuple[Array, Array, Array]]
) -> SparseAnalysisResult:
    """Puts matrices, as "w.data", "w.indices" and "w.indptr", in place of the parameters of these names."""
    for name, parts in matrices.items():
        del params[name]
        params.update({f"{name}.{key}": part for key, part in zip(("data", "indices", "indptr"), parts, strict=True)})
    shapes = [[n for part in parts for n in part.shape] for parts in matrices.values()]
    return SparseAnalysisResult(list(matrices), shapes)
