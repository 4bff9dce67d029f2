"""What inference does not know yet: type holes and dim holes. They live inside `infer` and never leave it.

A hole is a cell that unification fills once. Who waits for it (`watchers`) is asked again then; `why` says which demand
filled it, for messages about conflicts that come from afar.
"""

from __future__ import annotations

from collections.abc import Callable

from legato.arith.expr import Expr as Dim
from legato.arith.expr import Var
from legato.arith.substitute import variables
from legato.infer.site import Site
from legato.ir.types import HoleType, ShapeType, TensorType, Type

__all__ = ["DimHole", "Hole", "NotYet", "dim_vars", "has_failed", "has_holes", "is_hole", "show"]


class NotYet(Exception):
    """Raised by a relation's helper where an argument is not known well enough; the relation is asked again later."""


class Hole(Type):
    """A type to be found; compared by identity. `name` is what messages call it, "_" if it is not worth a word.

    That of an expression with a mistake is `failed`: it fits everything, so that nothing else is blamed.
    """

    __slots__ = ("failed", "name", "solution", "watchers", "why")
    solution: Type | None
    watchers: list[Callable[[], None]]
    why: Site | None

    def __init__(self, name: str = "_", *, failed: bool = False) -> None:
        self.name, self.failed, self.solution, self.watchers, self.why = name, failed, None, [], None


class DimHole(Var):
    """A dim to be found: a variable, so that arithmetic over it can be written down before it is known."""

    __slots__ = ("solution", "watchers", "why")
    solution: Dim | None
    watchers: list[Callable[[], None]]
    why: Site | None

    def __init__(self, name: str = "_", lo: int | None = 0, hi: int | None = None) -> None:
        super().__init__(name, lo=lo, hi=hi)
        self.solution, self.watchers, self.why = None, [], None


def is_hole(d: Dim) -> bool:
    """True for a dim, or an expression over dims, that is not known yet."""
    if isinstance(d, DimHole):
        return True
    return bool(d.children()) and any(isinstance(v, DimHole) for v in variables(d))


def has_holes(ty: Type) -> bool:
    """True if anything in `ty` is not known yet."""
    if isinstance(ty, TensorType):
        return any(is_hole(d) for d in ty.shape)
    if isinstance(ty, ShapeType):
        return ty.dims is not None and any(is_hole(d) for d in ty.dims)
    return isinstance(ty, Hole) or any(has_holes(k) for k in ty.children())


def has_failed(ty: Type) -> bool:
    """True if a part of `ty`, in which no filled hole is left, belongs to an expression with a mistake."""
    return (isinstance(ty, Hole) and ty.failed) or any(has_failed(k) for k in ty.children())


def show(ty: Type) -> str:
    """`ty` as text, with what is not known written `_`."""
    return str(_with_written_holes(ty))


def _with_written_holes(ty: Type) -> Type:
    if isinstance(ty, Hole):
        return HoleType()
    kids = ty.children()
    return ty.with_children(tuple(_with_written_holes(k) for k in kids)) if kids else ty


def dim_vars(ty: Type) -> tuple[Var, ...]:
    """The dim variables in `ty`, in order of appearance; a polymorphic function type's own are left out."""
    found: dict[Var, None] = {}
    _collect(ty, found)
    return tuple(found)


def _collect(ty: Type, found: dict[Var, None]) -> None:
    dims = ty.shape if isinstance(ty, TensorType) else ty.dims or () if isinstance(ty, ShapeType) else ()
    for d in dims:
        if isinstance(d, Var):
            found[d] = None
        elif d.children():
            found.update(dict.fromkeys(variables(d)))
    own = set(getattr(ty, "type_params", ()))
    for child in ty.children():
        if not own:
            _collect(child, found)
            continue
        inner: dict[Var, None] = {}
        _collect(child, inner)
        found.update({v: None for v in inner if v not in own})
