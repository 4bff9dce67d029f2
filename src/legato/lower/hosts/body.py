"""Statements of a block in the making."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from legato.arith.expr import Expr
from legato.tir.buffer import Buffer
from legato.tir.objects import Object, Resize
from legato.tir.stmt import Alloc, Stmt, block

__all__ = ["Body"]

Around = Callable[[Stmt], Stmt]


class Body:
    """Statements in order. What `inside` puts around the rest of the block (the life of a name) ends with the block."""

    __slots__ = ("_levels", "_stmts")

    def __init__(self) -> None:
        self._stmts: list[Stmt] = []
        self._levels: list[tuple[list[Stmt], Around]] = []

    def append(self, stmt: Stmt) -> None:
        """One more statement."""
        self._stmts.append(stmt)

    def extend(self, stmts: Iterable[Stmt]) -> None:
        """More statements."""
        self._stmts += stmts

    def inside(self, around: Around) -> None:
        """What follows is to be put inside what `around` makes."""
        self._levels.append((self._stmts, around))
        self._stmts = []

    def register(self, buffer: Buffer) -> Buffer:
        """`buffer`, in registers for the rest of the block."""
        self.inside(lambda rest: Alloc(buffer, rest))
        return buffer

    def object(self, payload: Buffer, tag: int = 0, pointers: int = 0) -> None:
        """A new object for the rest of the block."""
        self.inside(lambda rest: Object(payload, tag, pointers, rest))

    def resized(self, payload: Buffer, handle: Expr) -> None:
        """What the object `handle` becomes with another size, for the rest of the block."""
        self.inside(lambda rest: Resize(payload, handle, rest))

    def done(self) -> Stmt:
        """The block."""
        stmt = block(*self._stmts)
        for before, around in reversed(self._levels):
            stmt = block(*before, around(stmt))
        return stmt
