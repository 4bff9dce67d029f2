"""Files of functions outside of programs: a program names such functions, and whoever compiles it gives them."""

from __future__ import annotations

from typing import NoReturn

from legato.base.errors import UnsupportedError

__all__ = ["ExternModule", "ObjectModule", "SourceModule", "add_extern"]

HINT = "nn.op.extern calls a function by name, and relax.build(mod, packed={name: function}) says which that is"


class ExternModule:
    """Not here: see `nn.op.extern`."""

    def __init__(self, *_: object, **__: object) -> NoReturn:
        raise UnsupportedError(f"there is no nn.{type(self).__name__}: programs hold no functions from outside",
                               hint=HINT)  # fmt: skip


class ObjectModule(ExternModule):
    """Not here either."""


class SourceModule(ExternModule):
    """Not here either."""


def add_extern(mod: object) -> NoReturn:
    """Not here either."""
    raise UnsupportedError("there is no nn.add_extern: programs hold no functions from outside", hint=HINT)
