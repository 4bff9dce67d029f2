"""Tensors that programs change in place: a box holds the tensor that a variable means now, a view is one over another.

An operator that writes gives its first operand's box another value. A view reads its value anew when its base has
changed, and a write to it writes the base: `select` by `select_scatter`, and so on.
"""

from __future__ import annotations

from collections.abc import Callable

from legato.base.errors import UnsupportedError
from legato.ir.expr import Expr

__all__ = ["Box", "View"]


class Box:
    """A tensor that can be replaced."""

    def __init__(self, value: Expr) -> None:
        self.value = value
        self.version = 0
        self.depth = 0  # of the bodies that only running the program decides, in which it was made

    @property
    def root(self) -> Box:
        """The box that holds the memory."""
        return self

    def get(self) -> Expr:
        """The tensor as it is now."""
        return self.value

    def set(self, value: Expr) -> None:
        """Another tensor from now on."""
        self.value = value
        self.version += 1


class View(Box):
    """A part of a box, or its elements in another order: `read` gives it from the base's value; `write` the base's new
    value from its old one and the view's, None where that cannot be said. Of what `may_copy` it is not known whether
    it shares memory: it is refused where that matters."""

    def __init__(
        self,
        base: Box,
        read: Callable[[Expr], Expr],
        write: Callable[[Expr, Expr], Expr] | None,
        what: str,
        may_copy: bool = False,
    ) -> None:
        super().__init__(read(base.get()))
        self.base = base
        self._read, self._write, self._what, self._may_copy = read, write, what, may_copy
        self._seen = base.root.version

    @property
    def root(self) -> Box:
        return self.base.root

    def get(self) -> Expr:
        if self.root.version != self._seen:
            if self._may_copy:
                raise UnsupportedError(f"what aten::{self._what} gave is used after its tensor has changed in place")
            self.value, self._seen = self._read(self.base.get()), self.root.version
        return self.value

    def set(self, value: Expr) -> None:
        if self._write is None or self._may_copy:
            raise UnsupportedError(f"what aten::{self._what} gave is changed in place")
        self.get()
        self.base.set(self._write(self.base.get(), value))
        self.value, self._seen = value, self.root.version
