"""Parameters that are shapes: what a caller gives must be the dims that their types say."""

from __future__ import annotations

from collections.abc import Iterator

from legato.arith.expr import eq
from legato.base import dtype as dt
from legato.ir.types import ShapeType, TupleType, Type
from legato.lower.hosts.frame import Frame
from legato.lower.hosts.values import Value
from legato.tir.buffer import Buffer
from legato.tir.expr import Load, cast
from legato.tir.stmt import Check, Stmt

__all__ = ["shape_checks"]


def shape_checks(frame: Frame, ty: Type, value: Value, what: str) -> Iterator[Stmt]:
    """The checks that the extents in `value`, a parameter of type `ty`, are those of its type."""
    if isinstance(ty, TupleType) and isinstance(value, tuple):
        for n, (field, part) in enumerate(zip(ty.fields, value, strict=True)):
            yield from shape_checks(frame, field, part, f"{what}.{n}")
    elif isinstance(ty, ShapeType) and isinstance(value, tuple):
        for n, (dim, register) in enumerate(zip(ty.dims or (), value, strict=True)):
            assert isinstance(register, Buffer)
            fault = f"{what}: dim {n} must be {dim}"
            yield Check(eq(Load(register, ()), cast(dim, dt.int64)), frame.program.check(fault))
