"""Names for the dims that a model computes: those that the file gives them where it declares its outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from legato.arith.expr import Var, fresh
from legato.arith.substitute import variables
from legato.frontend.onnx.emitter import Emitter
from legato.frontend.onnx.inputs import declared_name
from legato.frontend.onnx.proto import ValueInfoProto
from legato.infer.replace import replace_vars
from legato.ir._dims import free_dims
from legato.ir.expr import Expr
from legato.ir.types import TensorType, Type

__all__ = ["with_names"]


def with_names(
    b: Emitter, values: Sequence[Expr], declared: Sequence[ValueInfoProto], inputs: Mapping[str, Type]
) -> list[Expr]:
    """`values`, outputs of a model with these `inputs`, cast to types whose computed dims are called as declared.

    A name that an input's dim has, or that another computed dim was given first, is taken: what a file says of extents
    is not held against it, so two dims of one name need not be equal.
    """
    known = {d for ty in inputs.values() for d in free_dims(ty)}
    names: dict[Var, Var] = {}
    taken = {d.name for d in known}
    for dim, name in _declared(values, declared):
        if dim not in known and dim not in names and name not in taken:
            names[dim] = fresh(name, dim.lo, dim.hi)
            taken.add(name)
    return [_cast(b, value, names) for value in values]


def _declared(values: Iterable[Expr], declared: Iterable[ValueInfoProto]) -> Iterator[tuple[Var, str]]:
    """The dims that are extents of tensors among `values` and have a name there."""
    for value, info in zip(values, declared, strict=True):
        for axis, dim in enumerate(value.ty.shape if isinstance(value.ty, TensorType) else ()):
            name = declared_name(info, axis)
            if isinstance(dim, Var) and name is not None:
                yield dim, name


def _cast(b: Emitter, value: Expr, names: Mapping[Var, Var]) -> Expr:
    if not isinstance(value.ty, TensorType) or names.keys().isdisjoint(variables(*value.ty.shape)):
        return value
    return b.match_cast(value, replace_vars(value.ty, {}, names))
