"""Statements of host functions about the objects of a running program; `tir.stmt` has the grammar.

A value of dtype handle is a word that refers to an object, or to nothing:

    0               nothing; Retain and Release leave it alone
    odd             `tag << 1 | 1`: a tag alone, without an object; Retain and Release leave it alone as well
    even            an object: a count of references (1 at first), a tag, and a payload whose first `pointers` words are
                    handles that the object owns. When the last reference is released these are released too

Handles are kept in buffers of dtype handle: of rank 0 in scope REGISTER, or a View of one of the first words of a
payload. They are read by Load, passed to Invoke as scalars or by buffers that receive them, compared with == and !=,
and otherwise only given to these statements and to the expressions Address, Tag and Size. Payload words are
undefined until they are stored to. A function that fails need not release anything: what is left over ends with the
call.
"""

from __future__ import annotations

from legato.arith.expr import Expr
from legato.base.dataclass import dataclass
from legato.tir.buffer import Buffer
from legato.tir.stmt import Stmt

__all__ = ["Object", "Open", "Release", "Resize", "Retain"]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Object(Stmt):
    """A new object with one reference, whose payload `buffer` names while body runs; `Address(buffer)` is its handle.

    The first `pointers` words of the payload are handles (host).
    """

    buffer: Buffer
    tag: int
    pointers: int
    body: Stmt

    def children(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return Object(self.buffer, self.tag, self.pointers, children[0])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Open(Stmt):
    """`buffer` names the payload of the object `handle` while body runs (host)."""

    buffer: Buffer
    handle: Expr
    body: Stmt

    def children(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return Open(self.buffer, self.handle, children[0])

    def exprs(self) -> tuple[Expr, ...]:
        return (self.handle,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Open(self.buffer, exprs[0], self.body)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Resize(Stmt):
    """An object with one reference, whose payload `buffer` names while body runs, and which begins with what the
    payload of `handle` holds, as far as both reach (host). `Address(buffer)` is its handle.

    That reference to `handle`, an object without pointers, is used up. Where it is the only one, the object may become
    the new one where it lies.
    """

    buffer: Buffer
    handle: Expr
    body: Stmt

    def children(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_children(self, children: tuple[Stmt, ...]) -> Stmt:
        return Resize(self.buffer, self.handle, children[0])

    def exprs(self) -> tuple[Expr, ...]:
        return (self.handle,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Resize(self.buffer, exprs[0], self.body)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Retain(Stmt):
    """One more reference to the object `handle` (host)."""

    handle: Expr

    def exprs(self) -> tuple[Expr, ...]:
        return (self.handle,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Retain(exprs[0])


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Release(Stmt):
    """One reference less to the object `handle`, which ends with the last one (host)."""

    handle: Expr

    def exprs(self) -> tuple[Expr, ...]:
        return (self.handle,)

    def with_exprs(self, exprs: tuple[Expr, ...]) -> Stmt:
        return Release(exprs[0])
