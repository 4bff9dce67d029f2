"""What a function is differentiated by, and what of it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from legato.base.errors import CompileError, UnsupportedError
from legato.ir.expr import Function, Var
from legato.ir.module import Module
from legato.ir.types import TupleType, Type
from legato.transform._gradient.cotangents import is_continuous
from legato.transform._gradient.dual_types import holds_floats
from legato.transform._gradient.nodes import is_data

__all__ = ["attrs_of", "fresh", "moving", "named", "output_type", "parameters", "require_tensors"]


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


def require_tensors(ty: Type, func: Function) -> None:
    """CompileError where what has cotangents is more than a tensor or a tuple of tensors."""
    if not is_data(ty):
        raise CompileError(f"what is differentiated has type {ty}, wanted tensors", span=func.span,
                           hint="give other values beside it (aux), or make tensors of them")  # fmt: skip


def parameters(func: Function, names: tuple[str, ...], mod: Module) -> list[Var]:
    """The parameters that gradients are wanted of. CompileError for a name that is none, or one without floats."""
    if not names:
        return [p for p in func.params if holds_floats(p.ty, mod)]
    found = named(func, names)
    for p in found:
        if not holds_floats(p.ty, mod):
            raise CompileError(f"the parameter {p.name!r} has type {p.ty}, which has no gradient", span=func.span)
    return found


def named(func: Function, names: Iterable[str]) -> list[Var]:
    """The parameters of these names. CompileError where there is none, or several."""
    found = []
    for name in names:
        same = [p for p in func.params if p.name == name]
        if not same:
            raise CompileError(f"there is no parameter {name!r}", span=func.span,
                               hint=f"there are {', '.join(p.name for p in func.params)}")  # fmt: skip
        if len(same) > 1:
            raise CompileError(f"{len(same)} parameters are called {name!r}", span=func.span,
                               hint="give each a name of its own")  # fmt: skip
        found += same
    return found


def moving(func: Function, names: tuple[str, ...], mod: Module) -> list[Var]:
    """The parameters that have tangents, each named once. UnsupportedError for data."""
    if twice := [name for n, name in enumerate(names) if name in names[:n]]:
        raise CompileError(f"the parameter {twice[0]!r} is named twice", span=func.span, hint="it has one tangent")
    found = parameters(func, names, mod)
    for p in found:
        if not is_data(p.ty):
            raise UnsupportedError(f"the parameter {p.name!r} has type {p.ty}: only tensors have tangents",
                                   span=func.span, hint="name those that move (wrt), or use reverse mode")  # fmt: skip
    return found


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
