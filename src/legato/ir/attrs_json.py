"""Attribute records as JSON, for artifacts whose operators are run by their references."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from legato.arith.expr import Const, Expr
from legato.base.dtype import DType
from legato.base.errors import UnsupportedError
from legato.ir.attrs import make_attrs
from legato.ir.op import Op

__all__ = ["attrs_from_json", "attrs_to_json"]


def attrs_to_json(attrs: Any) -> str:
    """`attrs` (a frozen dataclass, or None) as JSON; UnsupportedError for dims known only at run time."""
    return json.dumps(_plain(attrs))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, Const):
        return int(value.value)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Expr):
        raise UnsupportedError(
            f"an operator that is run by its reference has the symbolic attribute {value}",
            hint="compile with static shapes",
        )
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value


@lru_cache(maxsize=128)
def attrs_from_json(op: Op, text: str) -> Any:
    """The attribute record of `op` that `attrs_to_json` wrote: the same one for the same text, of the last ones."""
    data = json.loads(text)
    return None if op.attrs is None else make_attrs(op, {name: _tuples(value) for name, value in data.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
