"""Filters of convolutions that are mostly zero."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import numpy as np

from legato.base.kinds import require_number
from legato.ir.expr import Expr
from legato.relay.analysis._sparse import SparseAnalysisResult, block_of, replaced, weights

__all__ = ["SparseAnalysisResult", "process_params"]


def process_params(
    expr: Expr,
    params: MutableMapping[str, Any],
    block_size: tuple[int, int],
    sparsity_threshold: float,
    layout: str,
    kernel_size: int,
    reg_task_input: bool = True,
) -> SparseAnalysisResult:
    """The weights w of nn.conv2d of which at least this part is zero, which are "w.data", "w.indices" and "w.indptr" in
    `params` then; those of another layout or kernel size, and those that blocks do not divide, are left out.

    Of kernels of more than one pixel, the part is that in blocks of zeros. reg_task_input: nothing is tuned, so that
    nothing is registered.
    """
    from legato.transform._sparse import blocks_of, conv_matrix, has_blocks  # on use: analyses need no passes

    height, width = block_of(block_size)
    least = require_number(sparsity_threshold, "sparsity_threshold")
    found = {}
    for name, call, weight in weights(expr, "nn.conv2d", params):
        kernel_layout = call.attrs.kernel_layout
        shape = dict(zip(kernel_layout, weight.shape, strict=True))
        if call.attrs.data_layout != layout or (shape["H"], shape["W"]) != (kernel_size,) * 2 or not weight.size:
            continue
        matrix = conv_matrix(weight, kernel_layout, layout)
        if not has_blocks(matrix, height, width):
            continue
        blocks = blocks_of(matrix, height, width)
        sparsity = np.mean(weight == 0) if kernel_size == 1 else 1 - blocks.data.size / weight.size
        if sparsity >= least:
            data = blocks.data[:, :, 0] if width == 1 and kernel_size == 1 else blocks.data
            found[name] = (data, blocks.indices, blocks.indptr)
    return replaced(params, found)
