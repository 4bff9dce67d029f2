"""Tensor expressions. `from legato import te` has the names of `tvm.te`, which `te.names` defines.

The compiler says `import legato.te.math as te`: `from legato.te import math` would ask for the users' names first.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"te has no {name}")
    import_module("legato.base.compiler")  # a MissingError where its packages are not
    return getattr(import_module("legato.te.names"), name)  # on use: the compiler needs none of them


def __dir__() -> list[str]:
    found: list[str] = import_module("legato.te.names").__all__
    return found
