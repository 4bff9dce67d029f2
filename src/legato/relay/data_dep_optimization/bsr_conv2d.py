"""Filters of nn.conv2d that are mostly zero become sparse ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from legato.ir.expr import Function
from legato.relay._sparse_passes import Conv2dToSparse
from legato.relay.analysis import sparse_conv2d
from legato.relay.data_dep_optimization.utils import named, run_pass, taken

__all__ = ["convert"]


def convert(
    func: Function,
    params: Mapping[str, Any],
    blocksize: tuple[int, int],
    sparsity_threshold: float,
    layout: str = "NHWC",
    kernel_size: int = 1,
) -> tuple[Function, dict[str, Any]]:
    """`func` with nn.sparse_conv2d for convolutions with parameters of which at least this part is zero, and the
    parameters that it takes then: "w.data", "w.indices" and "w.indptr" in place of w."""
    new = named(params)
    found = sparse_conv2d.process_params(func, new, blocksize, sparsity_threshold, layout, kernel_size)
    made = run_pass(func, Conv2dToSparse(found.weight_name, found.weight_shape, layout, kernel_size))
    return made, taken(made, params, new, found.weight_name)
