"""Tensors that programs change in place: a box holds the tensor that a variable means now, a view is one over another.

An operator that writes gives its first operand's box another value. A view reads its value anew when its base has
changed, and a write to it writes the base: `select` by `select_scatter`, and so on. Where it is not known whether two
boxes share memory, one is `Entangled`: it is refused as soon as that would matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from legato.base.errors import UnsupportedError
from legato.ir.expr import Expr

__all__ = ["Box", "Entangled", "Scope", "View", "Written", "boxes_of"]

Scope = tuple[int, ...]  # the bodies that only running the program decides, from the outermost on
Written = Callable[[Expr, Expr], Expr]  # from a base's value and a view's new one, the base's new value


class Box:
    """A tensor that can be replaced. `depth`: in how many bodies that only running the program decides it was made;
    `number`: what a tensor of rank 0 holds where that is known; `is_state`: it is the module's, and no call may change
    it."""

    def __init__(self, value: Expr, depth: int = 0) -> None:
        self.value = value
        self.depth = depth
        self.number: object = None
        self.is_state = False
        self._changes = 0

    @property
    def root(self) -> Box:
        """The box that holds the memory."""
        return self

    @property
    def version(self) -> int:
        """Another number whenever the memory has changed."""
        return self._changes

    def get(self) -> Expr:
        """The tensor as it is now."""
        return self.value

    def set(self, value: Expr) -> None:
        """Another tensor from now on."""
        if self.is_state:
            raise UnsupportedError(
                "a tensor of the module is changed in place", hint="give it as an argument and return the new one"
            )
        self.value = value
        self.number = None
        self._changes += 1


class Entangled(Box):
    """A tensor that may share memory with others: it can be read as long as they have not changed."""

    def __init__(self, value: Expr, others: Sequence[Box], what: str, depth: int) -> None:
        super().__init__(value, depth)
        self._what = what
        self._roots = tuple({id(x.root): x.root for x in others}.values())
        self._seen = self.version

    @property
    def version(self) -> int:
        return self._changes + sum(x.version for x in self._roots)

    def get(self) -> Expr:
        if self.version != self._seen:
            raise UnsupportedError(f"{self._what} is used after a tensor has changed whose memory it may share")
        return self.value

    def set(self, value: Expr) -> None:
        hint = "clone() makes a tensor of its own"
        raise UnsupportedError(f"{self._what} is changed in place: it may share its memory with another", hint=hint)


class View(Box):
    """A part of a box, or its elements in another order: `read` gives it from the base's value; `write` says what a
    new value of it makes of the base, None where that cannot be said. `scope` tells the bodies that are being walked:
    what was read inside of one is not known outside. Of what `may_copy` it is not known whether it shares memory."""

    def __init__(
        self,
        base: Box,
        read: Callable[[Expr], Expr],
        write: Written | None,
        what: str,
        scope: Callable[[], Scope],
        may_copy: bool = False,
    ) -> None:
        super().__init__(read(base.get()), len(scope()))
        self.base = base
        self._read, self._write, self._what, self._scope, self._may_copy = read, write, what, scope, may_copy
        self._seen = base.root.version
        self._place = scope()

    @property
    def root(self) -> Box:
        return self.base.root

    @property
    def version(self) -> int:
        return self.root.version

    def get(self) -> Expr:
        is_changed = self.root.version != self._seen
        if is_changed and self._may_copy:
            raise UnsupportedError(f"what aten::{self._what} gave is used after its tensor has changed in place")
        if is_changed or self._scope()[: len(self._place)] != self._place:
            self._keep(self._read(self.base.get()))
        return self.value

    def set(self, value: Expr) -> None:
        if self._write is None or self._may_copy:
            hint = "clone() before it makes a tensor of its own"
            raise UnsupportedError(f"what aten::{self._what} gave is changed in place", hint=hint)
        self.base.set(self._write(self.base.get(), value))
        self._keep(self._read(self.base.get()))

    def _keep(self, value: Expr) -> None:
        self.value, self._seen, self._place = value, self.root.version, self._scope()


def boxes_of(value: Any) -> list[Box]:
    """The tensors of a value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [x for v in value for x in boxes_of(v)]
    return [value] if isinstance(value, Box) else []
