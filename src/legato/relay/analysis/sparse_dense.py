"""Weights of products that are mostly zero."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import numpy as np

from legato.base.kinds import require_number
from legato.ir.expr import Expr
from legato.relay.analysis._sparse import SparseAnalysisResult, block_of, replaced, weights

__all__ = ["SparseAnalysisResult", "process_params"]


def process_params(
    expr: Expr, params: MutableMapping[str, Any], block_size: tuple[int, int], sparsity_threshold: float
) -> SparseAnalysisResult:
    """The weights w of nn.dense of which at least this part is zero, which are "w.data", "w.indices" and "w.indptr" in
    `params` then. Those that blocks do not divide are left out."""
    from legato.transform._sparse import blocks_of, has_blocks  # on use: analyses need no passes

    height, width = block_of(block_size)
    least = require_number(sparsity_threshold, "sparsity_threshold")
    found = {}
    for name, _, weight in weights(expr, "nn.dense", params):
        is_divided = weight.ndim == 2 and weight.size and has_blocks(weight, height, width)
        if is_divided and np.mean(weight == 0) >= least:
            blocks = blocks_of(weight, height, width)
            found[name] = (blocks.data, blocks.indices, blocks.indptr)
    return replaced(params, found)
