"""The functional library in a module: lists, options, trees, and the functions over them."""

from __future__ import annotations

from typing import Any

from legato.prelude import library
from legato.relay.module import IRModule

__all__ = ["Prelude"]


class Prelude:
    """`p = Prelude(mod)`: `mod` (or a new module) gets the library, whose names `p` has.

    Functions are attributes (`p.map`, `p.foldl`, …); `p.mod.get_type("List")` is a type with its constructors,
    `p.get_ctor("List", "cons")` one of these.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = IRModule() if mod is None else mod
        self.mod.update(IRModule(library()))

    def get_type(self, name: str) -> tuple[Any, ...]:
        """The type of the library called `name`, then its constructors."""
        return self.mod.get_type(name)

    def get_ctor(self, ty_name: str, name: str) -> Any:
        """The constructor of a type, by name (`cons` is found as `Cons` too)."""
        for constructor in self.mod.get_type(ty_name)[1:]:
            if constructor.name.lower() == name.lower():
                return constructor
        raise AttributeError(f"type {ty_name} has no constructor {name}")

    def get_global_var(self, name: str) -> Any:
        """The function of the library called `name`."""
        return self.mod.get_global_var(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "mod" or name not in self.mod.module:
            raise AttributeError(f"the library has no function {name}")
        return self.mod.get_global_var(name)
