"""Shapes that are computed when the program runs, given to operators as Relay's `dyn.*` operators took them.

    reshape(x, s)                                     s : Tensor[(2,), int64]

is

    let %s = match_cast(tensor_to_shape(s), Shape[(s0, s1)]);
    reshape(x, newshape=[s0, s1])

so its elements are dims of the program from there on; their number, which is a rank, has to be known. What they may be
besides an extent (-1 and 0 of `reshape`, bounds below 0) is computed by operators first. A number below 0 that remains
is an error of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any, Final

import numpy as np

from legato.arith.expr import Const
from legato.arith.expr import Var as DimVar
from legato.base.errors import UnsupportedError
from legato.infer.builder import Builder
from legato.ir.expr import Constant, Expr
from legato.ir.tensor_to_shape import TENSOR_TO_SHAPE
from legato.ir.types import ShapeType, TensorType
from legato.relay.expr import TupleWrapper

__all__ = ["computed_attributes", "with_dims"]

# Attributes that consist of extents, and may therefore be dims that the program computes.
_EXTENTS: Final[Mapping[str, frozenset[str]]] = {
    "broadcast_to": frozenset({"shape"}),
    "full": frozenset({"shape"}),
    "image.resize2d": frozenset({"size"}),
    "nn.pad": frozenset({"pad_width"}),
    "one_hot": frozenset({"depth"}),
    "ones": frozenset({"shape"}),
    "reshape": frozenset({"newshape"}),
    "strided_slice": frozenset({"begin", "end"}),
    "tile": frozenset({"reps"}),
    "topk": frozenset({"k"}),
    "zeros": frozenset({"shape"}),
}


def computed_attributes(op: str, given: Mapping[str, Any]) -> dict[str, Expr]:
    """Those of `given` that tensors of known shape hold, and that `op` takes as dims."""
    of = _EXTENTS.get(op, frozenset())
    return {name: value for name, value in given.items() if name in of and _is_computed(value)}


def _is_computed(value: Any) -> bool:
    if not isinstance(value, Expr) or isinstance(value, Constant) or not isinstance(value.ty, TensorType):
        return False
    return value.ty.dtype.is_int and all(isinstance(d, Const) for d in value.ty.shape)


def with_dims(op: str, given: Mapping[str, Any], computed: Mapping[str, Expr], build: Callable[..., Any]) -> Any:
    """What `build` makes of `given`, with dims for the attributes that are `computed`, inside the lets of these."""
    b = Builder()
    results: list[Any] = []

    def body() -> Expr:
        dims = {name: _dims(b, name, _extents(b, op, name, value, given)) for name, value in computed.items()}
        results.append(build({**given, **dims}))
        made = results[0]
        return made.astuple() if isinstance(made, TupleWrapper) else made

    found = b.body(body)
    return TupleWrapper(found, results[0].size) if isinstance(results[0], TupleWrapper) else found


def _dims(b: Builder, name: str, value: Expr) -> Any:
    """The elements of `value` as dims, nested as they lie in it: a number, a list, or a list of lists."""
    assert isinstance(value.ty, TensorType)
    shape = tuple(int(d.value) for d in value.ty.shape if isinstance(d, Const))
    count = prod(shape)
    flat = value if len(shape) == 1 else b.reshape(value, newshape=(count,))
    dims = [DimVar(f"{name}{n}", lo=0) for n in range(count)]
    b.let(name, b.match_cast(b.call(TENSOR_TO_SHAPE, flat), ShapeType(tuple(dims))))
    nested: Any = np.array([None, *dims], object)[1:].reshape(shape).tolist()
    return nested if isinstance(nested, DimVar) else _tuples(nested)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _extents(b: Builder, op: str, name: str, value: Expr, given: Mapping[str, Any]) -> Expr:
    """`value` with extents for what stands for them: -1 and 0 of a new shape, bounds that count from the end."""
    if op == "reshape":
        return _new_shape(b, given["data"], value)
    if op == "strided_slice":
        return _bounds(b, name, value, given)
    return value


def _new_shape(b: Builder, x: Expr, shape: Expr) -> Expr:
    """A new shape without 0, which keeps the extent of `x` there, and -1, which is what the others leave."""
    assert isinstance(shape.ty, TensorType)
    dtype, rank = "int64", prod(int(d.value) for d in shape.ty.shape if isinstance(d, Const))
    given = b.cast(shape, dtype=dtype)
    old = _shape_of(b, x)
    zero, one = b.constant(0, dtype), b.constant(1, dtype)
    kept = b.strided_slice(
        b.concatenate((old, b.zeros(shape=(rank,), dtype=dtype))), begin=(0,), end=(rank,), axes=(0,)
    )
    known = b.where(b.equal(given, zero), kept, given)
    is_rest = b.equal(known, b.constant(-1, dtype))
    others = b.prod(b.where(is_rest, b.ones(shape=(rank,), dtype=dtype), known))
    rest = b.floor_divide(b.prod(old), b.maximum(others, one))
    return b.where(is_rest, b.broadcast_to(rest, shape=(rank,)), known)


def _bounds(b: Builder, name: str, value: Expr, given: Mapping[str, Any]) -> Expr:
    """Bounds of a slice, of which those below 0 count from the end, cut to the extents of the data."""
    steps = given["strides"]
    listed = () if steps is None else (steps,) if isinstance(steps, int) else tuple(steps)
    if given["slice_mode"] != "end" or any(not isinstance(s, int) or s < 1 for s in listed):
        raise UnsupportedError(
            f"relay.strided_slice: {name} is computed when the program runs, with steps {steps} and slice_mode"
            f" {given['slice_mode']!r}",
            hint="give steps above 0 as numbers, and slice_mode 'end'",
        )
    assert isinstance(value.ty, TensorType)
    count = prod(int(d.value) for d in value.ty.shape if isinstance(d, Const))
    axes = range(count) if given["axes"] is None else given["axes"]
    ends = b.take(_shape_of(b, given["data"]), b.constant(np.array(tuple(axes), np.int64)), axis=0, mode="wrap")
    zero, at = b.constant(0, "int64"), b.cast(value, dtype="int64")
    return b.minimum(b.maximum(b.where(b.less(at, zero), b.add(at, ends), at), zero), ends)


def _shape_of(b: Builder, x: Expr) -> Expr:
    return b.shape_of(x, dtype="int64")
