"""What patterns ask of expressions: their attributes, and whether types are the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np

from legato.arith.expr import Const
from legato.arith.expr import Expr as DimExpr
from legato.arith.prove import prove_all_equal, prove_equal
from legato.base.dtype import DType
from legato.ir.expr import Call, Expr, Function
from legato.ir.op import Fusion, Op
from legato.ir.types import Dim, ShapeType, TensorType, Type

__all__ = ["has_attrs", "same_shape", "same_type"]

_FUSION_CLASS: Final = "TOpPattern"  # as Relay calls it


def same_shape(a: Sequence[Dim], b: Sequence[Dim]) -> bool:
    """Whether two shapes are proven to be equal."""
    return prove_all_equal(a, b)


def same_type(a: Type, b: Type) -> bool:
    """Whether two types are equal, dims where they are proven to be (types nest shallowly)."""
    if a == b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return a.dtype == b.dtype and same_shape(a.shape, b.shape)
    if isinstance(a, ShapeType) and isinstance(b, ShapeType):
        return a.dims is not None and b.dims is not None and same_shape(a.dims, b.dims)
    old, new = a.children(), b.children()
    if not old or len(old) != len(new) or a.with_children(new) != b:  # they differ in more than their parts
        return False
    return all(map(same_type, old, new))


def has_attrs(e: Expr, wanted: Mapping[str, Any]) -> bool:
    """Whether `e` has these attributes. Lists are tuples, a dtype is its name."""
    found = _attrs_of(e)
    return all(name in found and _same(found[name], value) for name, value in wanted.items())


def _attrs_of(e: Expr) -> Mapping[str, Any]:
    match e:
        case Call():
            return {f.name: getattr(e.attrs, f.name) for f in fields(e.attrs)} if is_dataclass(e.attrs) else {}
        case Function():
            return e.attrs
        case Op() if isinstance(e.fusion, Fusion):  # that of others depends on the call
            return {_FUSION_CLASS: int(e.fusion)}
        case _:
            return {}


def _same(have: Any, want: Any) -> bool:
    if isinstance(have, list | tuple) and isinstance(want, list | tuple):
        return len(have) == len(want) and all(map(_same, have, want))
    have, want = _plain(have), _plain(want)
    if isinstance(have, DimExpr) and isinstance(want, DimExpr):
        return prove_equal(have, want)
    if isinstance(have, np.ndarray) or isinstance(want, np.ndarray):
        return isinstance(have, np.ndarray) and isinstance(want, np.ndarray) and np.array_equal(have, want)
    return bool(have == want)


def _plain(value: Any) -> Any:
    if isinstance(value, Const):
        return value.value
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, DType) else value
