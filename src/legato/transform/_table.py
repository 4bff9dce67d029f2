"""The table of passes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from inspect import isabstract
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType

from legato.base.errors import InternalError
from legato.transform.pass_ import Pass

__all__ = ["table"]


@cache
def table() -> Mapping[str, type[Pass]]:
    """Every pass of the package by name; files whose names begin with an underscore hold helpers."""
    found: dict[str, type[Pass]] = {}
    for info in iter_modules([str(Path(__file__).parent)]):
        if info.name.startswith("_"):
            continue
        for value in vars(import_module(f"{__package__}.{info.name}")).values():
            is_pass = isinstance(value, type) and issubclass(value, Pass) and not isabstract(value)
            if is_pass and found.setdefault(value.name, value) is not value:
                raise InternalError(f"two passes are called {value.name!r}")
    return MappingProxyType(dict(sorted(found.items())))
