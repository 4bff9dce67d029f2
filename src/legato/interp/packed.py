"""Calls of what is outside of the program: of packed functions, and those that print and test values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from legato.interp.activation import Activation
from legato.interp.context import Context
from legato.interp.operators import extent
from legato.interp.values import Value
from legato.ir.expr import Call
from legato.ir.op import Op
from legato.ir.packed import CALL_DPS_PACKED, PACKED, PRINT, PackedAttrs
from legato.ir.types import TensorType, TupleType, Type
from legato.runtime import messages, packed

__all__ = ["call_outside"]


def call_outside(context: Context, env: Activation, node: Call, op: Op, args: Sequence[Value]) -> Value:
    """The value of the call `node` of `op`, which is in `ir.packed.OUTSIDE`."""
    if op in PACKED:
        return _packed(context, env, node, op, args[0])
    if op is PRINT:
        messages.show(node.attrs.format, args[0])
    else:
        messages.check(args[0], node.attrs.format, args[1])
    return ()


def _packed(context: Context, env: Activation, node: Call, op: Op, args: Value) -> Value:
    """What the function gives for copies of its arguments, in the program's own dtypes (in float64 mode, too)."""
    attrs = node.attrs
    assert isinstance(attrs, PackedAttrs)
    wanted = [
        packed.Wanted(kind.numpy, tuple(None if d is None else extent(op, d, env.dims) for d in shape))
        for shape, kind in zip(attrs.dims, attrs.dtypes, strict=True)
    ]
    function = context.packed(node)
    fills = op is CALL_DPS_PACKED or packed.is_c_function(function.function)
    outs = [w.zeros() for w in wanted] if fills else None
    results = packed.call(function, attrs.name, _own(args, node.args[0].ty), wanted, outs)
    found = tuple(context.widen(np.array(r, order="C")) for r in results)
    return found[0] if len(found) == 1 else found


def _own(value: Value, ty: Type | None) -> Any:
    """A value of type `ty` of tensors that may only be read."""
    if isinstance(value, tuple):
        types = ty.fields if isinstance(ty, TupleType) else (None,) * len(value)
        return tuple(_own(v, t) for v, t in zip(value, types, strict=True))
    if not isinstance(value, np.ndarray):
        return value
    array = np.array(value, ty.dtype.numpy if isinstance(ty, TensorType) else None, order="C")
    array.flags.writeable = False
    return array
