"""Weights that nn.dense takes transposed are transposed beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from legato.base.arrays import as_array
from legato.base.errors import TypeCheckError
from legato.ir.expr import Function
from legato.relay.analysis import search_fc_transpose
from legato.relay.data_dep_optimization.utils import named, run_pass, taken
from legato.relay.transform import SimplifyFCTranspose

__all__ = ["convert"]


def convert(func: Function, params: Mapping[str, Any]) -> tuple[Function, dict[str, Any]]:
    """`func` with parameters "w.T" for nn.dense(x, transpose(w)), and the parameters that it takes then; those that
    `params` does not have stay as they are."""
    given = named(params)
    names = [name for name in search_fc_transpose(func) if name in given]
    new = run_pass(func, SimplifyFCTranspose(names))
    turned = {f"{name}.T": _transposed(given[name], name) for name in names}
    return new, taken(new, given, turned, names)


def _transposed(value: Any, name: str) -> np.ndarray[Any, Any]:
    array = as_array(value, f"parameter {name!r}", TypeCheckError)
    if array.ndim != 2:
        raise TypeCheckError(f"parameter {name!r} is {array.dtype}{list(array.shape)}, wanted a matrix")
    return np.ascontiguousarray(array.T)
