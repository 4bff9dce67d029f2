"""Zeros have signs: compiled, each elementwise operator gives the zero that its reference does."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import legato
from legato.base.errors import TypeCheckError
from legato.infer.builder import Builder
from legato.interp import evaluate
from legato.ir.attrs import default_attrs, has_required
from legato.ir.expr import Function, Var
from legato.ir.module import Module
from legato.ir.op import Fusion, Op
from legato.ir.types import TensorType, tensor_type
from legato.ops import table

VALUES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan)


def arguments(op: Op) -> list[np.ndarray[Any, Any]]:
    return [column.copy() for column in np.array(list(product(VALUES, repeat=len(op.args))), np.float32).T]


def call(op: Op) -> Function | None:
    """The operator on floats as a function; None if it takes others or gives others."""
    params = tuple(Var(f"x{k}", ty=tensor_type(a.shape, "float32")) for k, a in enumerate(arguments(op)))
    try:
        made = Builder().call_op(op, params, default_attrs(op))
    except TypeCheckError:
        return None
    return Function(params, made) if isinstance(made.ty, TensorType) and made.ty.dtype.is_float else None


ELEMENTWISE = [
    op.name
    for op in table().values()
    if op.compute is not None and not has_required(op) and op.fuses(default_attrs(op)) <= Fusion.BROADCAST
    if len(op.args) <= 2 and not any(a.startswith("*") for a in op.args) and call(op)
]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_signs_of_zeros(name: str) -> None:
    func, args = call(table()[name]), arguments(table()[name])
    assert func is not None
    module = Module.from_expr(func)
    wanted, got = evaluate(module, args), legato.compile(module, threads=1, precision="exact")(*args)
    zeros = (wanted == 0) & (got == 0)
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(wanted[zeros]))
