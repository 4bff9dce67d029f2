"""Cotangents and tangents: what belongs to a value, piece by piece, and is nothing where it is zero.

A tensor of floats has an expression of its type, a tuple a Python tuple of what its fields have. None stands for zero:
no tensor of zeros is made before somebody asks for one.
"""

from __future__ import annotations

from collections.abc import Iterator

from legato.infer.builder import Builder
from legato.ir.atoms import is_atom
from legato.ir.expr import Expr, Var
from legato.ir.types import ShapeType, TensorType, TupleType, Type

__all__ = ["Cotangent", "at_field", "is_continuous", "leaves", "made", "name_for", "plus"]

Cotangent = Expr | tuple["Cotangent", ...] | None


def is_continuous(ty: Type | None) -> bool:
    """Whether a value of this type, a tensor or a tuple, holds floats."""
    if isinstance(ty, TupleType):
        return any(map(is_continuous, ty.fields))
    return isinstance(ty, TensorType) and ty.dtype.is_float


def leaves(value: Cotangent) -> Iterator[Expr]:
    """The expressions in it."""
    if isinstance(value, tuple):
        for part in value:
            yield from leaves(part)
    elif value is not None:
        yield value


def at_field(ty: TupleType, index: int, value: Cotangent) -> Cotangent:
    """What belongs to a tuple of type `ty` of which only field `index` has something."""
    return tuple(value if n == index else None for n in range(len(ty.fields)))


def name_for(of: Expr) -> str:
    """What the cotangent of a value is called: `dx` for `x`."""
    return f"d{of.name}" if isinstance(of, Var) else "d"


def plus(b: Builder, left: Cotangent, right: Cotangent, name: str = "d") -> Cotangent:
    """The sum, bound piece by piece to `name`."""
    if left is None or right is None:
        return right if left is None else left
    if isinstance(left, tuple) and isinstance(right, tuple):
        return tuple(plus(b, x, y, name) for x, y in zip(left, right, strict=True))
    return b.let(name, b.add(left, right))


def made(b: Builder, value: Cotangent, like: Expr) -> Expr:
    """It as an expression of the type of `like`, a tensor or a tuple, whose elements say the shapes of zeros."""
    if isinstance(like.ty, TupleType):
        parts = value if isinstance(value, tuple) else (None,) * len(like.ty.fields)
        whole = (p if isinstance(p, Expr) else made(b, p, _field(b, like, n)) for n, p in enumerate(parts))
        return b.tuple_(list(whole))
    assert not isinstance(value, tuple)
    if isinstance(like.ty, ShapeType):
        return like  # there is no other of its type
    return b.let(name_for(like), _zeros_like(b, like)) if value is None else value


def _zeros_like(b: Builder, like: Expr) -> Expr:
    """Zeros of the type of a tensor, which is asked for its shape only where that is not known."""
    ty = like.ty
    assert isinstance(ty, TensorType)
    return b.zeros(shape=ty.static_shape(), dtype=ty.dtype) if ty.is_static else b.zeros_like(like)


def _field(b: Builder, value: Expr, index: int) -> Expr:
    field = b.get(value, index)
    return field if is_atom(field) else b.let(value.name if isinstance(value, Var) else "part", field)
