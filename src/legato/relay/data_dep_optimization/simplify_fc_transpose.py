"""Weights that nn.dense takes transposed are transposed beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from legato.ir.expr import Function
from legato.relay.analysis import search_fc_transpose
from legato.relay.data_dep_optimization.utils import run_pass, taken
from legato.relay.transform import SimplifyFCTranspose

__all__ = ["convert"]


def convert(func: Function, params: Mapping[str, Any]) -> tuple[Function, dict[str, Any]]:
    """`func` with parameters "w.T" for nn.dense(x, transpose(w)), and the parameters that it takes then; those that
    `params` does not have stay as they are."""
    names = [name for name in search_fc_transpose(func) if name in params]
    new = run_pass(func, SimplifyFCTranspose(names))
    turned = {f"{name}.T": np.ascontiguousarray(np.asarray(params[name]).T) for name in names}
    return new, taken(new, params, turned, names)
