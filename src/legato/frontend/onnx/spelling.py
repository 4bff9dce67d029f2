"""Attributes of calls as people write them: what a converter works out is more than needs to be said.

nn.conv2d(x, w, padding=[1, 1, 1, 1])                         =>    nn.conv2d(x, w, padding=[1, 1])
strided_slice(x, begin=[129], end=[dim[258]], axes=[1])       =>    strided_slice(x, begin=[129], end=[258], axes=[1])
reshape(x, newshape=[2, -1], allowzero=True)                  =>    reshape(x, newshape=[2, -1])
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from legato.arith.expr import Const
from legato.ir.attr_types import dim_fields
from legato.ops.reshape import ReshapeAttrs

__all__ = ["as_written"]


def as_written(attrs: Any) -> Any:
    """The attributes with the same meaning, as short as they can be written."""
    if attrs is None:
        return None
    changed = {name: _numbers(getattr(attrs, name)) for name in dim_fields(attrs.__class__)}
    if isinstance(attrs, ReshapeAttrs) and attrs.allowzero:
        changed["allowzero"] = any(_is_zero(d) for d in attrs.newshape)
    if hasattr(attrs, "padding") and hasattr(attrs, "strides"):
        changed["padding"] = _padding(attrs)
    changed = {name: value for name, value in changed.items() if value is not getattr(attrs, name)}
    return replace(attrs, **changed) if changed else attrs


def _numbers(value: Any) -> Any:
    """Literal dims of 1 and more as numbers, which mean the same everywhere; below, numbers may be codes."""
    if isinstance(value, tuple):
        found = tuple(map(_numbers, value))
        return found if any(a is not b for a, b in zip(found, value, strict=True)) else value
    return int(value.value) if isinstance(value, Const) and int(value.value) >= 1 else value


def _is_zero(d: Any) -> bool:
    return (isinstance(d, int) and d == 0) or (isinstance(d, Const) and int(d.value) == 0)


def _padding(attrs: Any) -> Any:
    """One number for both sides of each dimension, where they are equal; nothing said where there is none."""
    rank, given = len(attrs.strides), attrs.padding
    if len(given) != 2 * rank or given[:rank] != given[rank:]:
        return given
    default = next(f.default for f in fields(attrs) if f.name == "padding")
    return given[:rank] if any(given) else default
