"""What a function is differentiated by, and what of it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from legato.base.errors import CompileError
from legato.ir.expr import Function, Var
from legato.ir.module import Module
from legato.ir.types import TupleType, Type
from legato.transform._gradient.cotangents import is_continuous
from legato.transform._gradient.dual_types import holds_floats

__all__ = ["attrs_of", "fresh", "output_type", "parameters"]


def output_type(func: Function, has_aux: bool) -> Type:
    """The type of what is differentiated. CompileError if it holds no floats."""
    ty = func.body.ty
    if has_aux:
        if not isinstance(ty, TupleType) or not ty.fields:
            raise CompileError(f"the result has type {ty}, wanted a tuple", span=func.span,
                               hint="its first field is differentiated, the others are passed on")  # fmt: skip
        ty = ty.fields[0]
    if not is_continuous(ty):
        raise CompileError(f"what is differentiated has type {ty}, wanted floats", span=func.span)
    assert ty is not None
    return ty


def parameters(func: Function, names: tuple[str, ...], mod: Module) -> list[Var]:
    """The parameters that gradients are wanted of. CompileError for a name that is none, or one without floats."""
    by_name = {p.name: p for p in func.params}
    if not names:
        return [p for p in func.params if holds_floats(p.ty, mod)]
    for name in names:
        if name not in by_name:
            raise CompileError(
                f"there is no parameter {name!r}", span=func.span, hint=f"there are {', '.join(by_name)}"
            )
        if not holds_floats(by_name[name].ty, mod):
            raise CompileError(
                f"the parameter {name!r} has type {by_name[name].ty}, which has no gradient", span=func.span
            )
    return [by_name[name] for name in names]


def fresh(names: Iterable[str], func: Function) -> list[str]:
    """Names of new parameters, which no other one has: with an underscore after those that are taken."""
    taken = {p.name for p in func.params}
    found = []
    for name in names:
        while name in taken:
            name += "_"
        taken.add(name)
        found.append(name)
    return found


def attrs_of(func: Function) -> Mapping[str, Any]:
    """The attributes of a function that gives more than `func`: those that are not about its results."""
    return {name: value for name, value in func.attrs.items() if name != "output_names"}
