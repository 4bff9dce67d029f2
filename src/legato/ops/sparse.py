"""Tensors that are given by the places and values of a few elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from legato.arith.expr import const
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.expr import Expr
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import Dim, TensorType, Type
from legato.ops._computed import as_dims
from legato.ops._dynamic import Dynamic, evaluated
from legato.ops._rules import INT, require_dtype, require_rank, same_dtype, tensor
from legato.ops._tensors import Array, as_int
from legato.ops.create import InitAttrs, full
from legato.ops.scatter import ScatterNDAttrs, scatter_nd

if TYPE_CHECKING:
    from legato.infer.builder import Builder

__all__ = ["SparseToDenseAttrs", "sparse_to_dense"]


@dataclass(frozen=True, slots=True)
class SparseToDenseAttrs(Attrs):
    """The shape of the result."""

    output_shape: tuple[Dim | int, ...]


def _relation(rel: Relation, indices: Type, values: Type, default: Type, a: SparseToDenseAttrs) -> Type | None:
    places = tensor(rel, indices, "sparse_indices")
    elements, fill = tensor(rel, values, "sparse_values"), tensor(rel, default, "default_value")
    require_dtype(rel, places, INT, "sparse_indices")
    require_rank(rel, places, 0, 1, 2, what="sparse_indices")
    require_rank(rel, elements, 0, 1, what="sparse_values")
    same_dtype(rel, elements, fill)
    rank = len(a.output_shape)
    if places.rank == 2:
        rel.same(places.shape[1], const(rank), "subscripts of each element")
    elif rank != 1:
        raise rel.fail(f"indices of rank {places.rank} for a result of rank {rank}, wanted a row for each element")
    if elements.rank:
        rel.same(elements.shape[0], places.shape[0] if places.rank else const(1), "a value for each element")
    return full.type_rel(rel, default, InitAttrs(a.output_shape))


def _reference(indices: Array, values: Array, default: Array, a: SparseToDenseAttrs) -> Array:
    whole = np.full([as_int(d) for d in a.output_shape], default[()], values.dtype)
    places = indices.reshape(indices.shape[0] if indices.ndim == 2 else -1, whole.ndim).T
    updates = np.ascontiguousarray(np.broadcast_to(values, places.shape[1:]))
    found: Array = evaluated(scatter_nd, [whole, np.ascontiguousarray(places), updates], ScatterNDAttrs())
    return found


def _expand(b: Builder, indices: Expr, values: Expr, default: Expr, a: SparseToDenseAttrs) -> Expr:
    assert isinstance(indices.ty, TensorType)
    count = indices.ty.shape[0] if indices.ty.rank else const(1)
    rows = b.reshape(indices, newshape=(count, len(a.output_shape)), allowzero=True)
    places = b.transpose(rows, axes=(1, 0))
    updates = b.broadcast_to(values, shape=(count,))
    return b.scatter_nd(b.full(default, shape=a.output_shape), places, updates)


_ROWS = np.array([[0, 1], [2, 0], [2, 1]], np.int64)

sparse_to_dense = Op(
    name="sparse_to_dense",
    args=("sparse_indices", "sparse_values", "default_value"),
    attrs=SparseToDenseAttrs,
    type_rel=_relation,
    reference=_reference,
    expand=_expand,
    samples=(
        Sample((_ROWS, ((3,), "float32"), np.array(-1, np.float32)), {"output_shape": (3, 2)}, exact=True),
        Sample((np.array([3, 0], np.int32), ((), "int32"), np.array(0, np.int32)), {"output_shape": (5,)}, exact=True),
    ),
    doc="""`sparse_values` at the places of `sparse_indices`, a row of subscripts for each, `default_value` elsewhere.

Subscripts below 0 count from the end, and places outside are dropped; of several at one place the last stays.""",
)


def _expand_computed(b: Builder, args: dict[str, Expr], own: Any) -> Expr:
    shape = as_dims(b, args["output_shape"], "output_shape")
    values = [args[name] for name in sparse_to_dense.args]
    return _expand(b, values[0], values[1], values[2], SparseToDenseAttrs(shape))


dyn_sparse_to_dense = Dynamic(
    sparse_to_dense,
    ("sparse_indices", "output_shape", "sparse_values", "default_value"),
    expand=_expand_computed,
).record(
    "dyn.sparse_to_dense",
    samples=(Sample((_ROWS, np.array([3, 2]), ((3,), "float32"), np.array(-1, np.float32)), exact=True),),
    doc="As sparse_to_dense, whose shape is an argument.",
)
