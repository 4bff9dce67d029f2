"""Functions outside of programs: there are none."""

from __future__ import annotations

from typing import NoReturn

from legato.base.errors import UnsupportedError

__all__ = ["ExternModule", "ObjectModule", "SourceModule", "add_extern"]


class ExternModule:
    """Not here: programs do not call what is outside of them."""

    def __init__(self, *_: object, **__: object) -> NoReturn:
        raise UnsupportedError(f"there is no nn.{type(self).__name__}: programs do not call what is outside of them",
                               hint="nn.op.tensor_ir_op calls a tensor program of one's own")  # fmt: skip


class ObjectModule(ExternModule):
    """Not here either."""


class SourceModule(ExternModule):
    """Not here either."""


def add_extern(mod: object) -> NoReturn:
    """Not here either."""
    raise UnsupportedError("there is no nn.add_extern: programs do not call what is outside of them")
