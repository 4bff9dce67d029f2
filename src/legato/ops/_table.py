"""The operators by name, and what operator names and symbols mean on expressions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

from legato.base.errors import InternalError
from legato.infer.builder import Builder
from legato.ir import sugar
from legato.ir.expr import Expr
from legato.ir.op import Op

__all__ = ["table"]


@cache
def table() -> Mapping[str, Op]:
    """Every operator of the package by name; files whose names begin with an underscore hold helpers."""
    found: dict[str, Op] = {}
    for info in iter_modules([str(Path(__file__).parent)]):
        if info.name.startswith("_"):
            continue
        for value in vars(import_module(f"{__package__}.{info.name}")).values():
            if isinstance(value, Op) and found.setdefault(value.name, value) is not value:
                raise InternalError(f"operator {value.name!r} is defined twice")
    return MappingProxyType(dict(sorted(found.items())))


def _apply(name: str, *args: Any, **attrs: Any) -> Expr:
    """What an operator symbol between expressions builds; name "" calls the first argument."""
    builder = Builder()
    return builder.call(args[0], *args[1:], **attrs) if name == "" else builder.call(name, *args, **attrs)


sugar.install(_apply, table)
