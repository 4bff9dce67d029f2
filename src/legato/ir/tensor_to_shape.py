"""`tensor_to_shape`: the operator that makes dims of numbers that only the data decides.

    let %s = tensor_to_shape(%n);                     %s : Shape[(d0, d1)] for %n : Tensor[(2,), int64]
    reshape(%x, newshape=[d0, d1])

The dims are the program's from there on: attributes and types name them, and what they demand of each other is checked
as soon as they have values. A number below 0 is an error of the call.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from legato.arith.expr import Const, const, max_
from legato.arith.simplify import simplify
from legato.base.errors import RunError
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import ShapeType, TensorType, Type

__all__ = ["NEGATIVE", "TENSOR_TO_SHAPE"]

NEGATIVE = "tensor_to_shape: a dim is below 0"
_MOST = 64  # dims


def _relation(rel: Relation, data: Type) -> Type | None:
    if not isinstance(data, TensorType):
        raise rel.fail(f"data must be a tensor, got {data}")
    extent = data.shape[0] if data.rank == 1 else None
    if not data.dtype.is_int or not isinstance(extent, Const) or extent.value > _MOST:
        raise rel.fail(f"data must be integers, at most {_MOST} in one dimension of known extent, got {data}")
    known = rel.value(0)
    if known is not None:
        for d in known:
            rel.same(simplify(max_(d, const(0))), d, "a dim that is 0 or more")
        return ShapeType(known)
    return ShapeType(tuple(rel.fresh("d") for _ in range(int(extent.value))))


def _reference(data: np.ndarray[Any, Any]) -> tuple[int, ...]:
    if (data < 0).any():
        raise RunError(f"{NEGATIVE}: {data.tolist()}")
    return tuple(data.tolist())


TENSOR_TO_SHAPE = Op(
    name="tensor_to_shape",
    args=("data",),
    type_rel=_relation,
    reference=_reference,
    samples=(Sample((np.array([2, 0, 3]),), exact=True),),
    doc="The elements of a tensor of integers as dims.",
)
