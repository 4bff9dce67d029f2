"""Weights of nn.dense that are mostly zero become sparse ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.ir.expr import Function
from legato.relay._sparse_passes import DenseToSparse
from legato.relay.analysis import sparse_dense
from legato.relay.data_dep_optimization.utils import named, run_pass, taken

__all__ = ["convert"]


def convert(
    func: Function, params: Mapping[str, Any], blocksize: tuple[int, int], sparsity_threshold: float
) -> tuple[Function, dict[str, Any]]:
    """`func` with nn.sparse_dense for products with parameters of which at least this part is zero, and the parameters
    that it takes then: "w.data", "w.indices" and "w.indptr" in place of w."""
    new = named(params)
    found = sparse_dense.process_params(func, new, blocksize, sparsity_threshold)
    made = run_pass(func, DenseToSparse(found.weight_name, found.weight_shape))
    return made, taken(made, params, new, found.weight_name)
