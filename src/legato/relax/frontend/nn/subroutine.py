"""SubroutineMixin: modules as functions of the program."""

from __future__ import annotations

__all__ = ["SubroutineMixin"]


class SubroutineMixin:
    """`define_subroutine = True` asks for a function for the module, which is called where it is.

    What such a function computes stands in the place of the call here: fusion cuts programs into parts by itself.
    """

    define_subroutine: bool = False
