"""Types inside expressions and types: their variables, kinds and dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from legato.base.errors import TypeCheckError
from legato.base.node import post_order
from legato.ir.clauses import Clause
from legato.ir.expr import Constructor, Expr, Function, Match, MatchCast, Var
from legato.ir.scope import pattern_vars
from legato.ir.types import (
    FuncType,
    GlobalTypeVar,
    Kind,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
    walk,
)

__all__ = ["all_dtypes", "all_type_vars", "bound_type_vars", "check_kind", "free_type_vars"]


def free_type_vars(expr: Expr | Type, mod: Any = None) -> list[TypeVar]:
    """The type variables in an expression or type that nothing in it binds, in order of first occurrence.

    Those of kind ShapeVar are dims here and not listed.
    """
    bound = set(bound_type_vars(expr, mod))
    return [v for v in all_type_vars(expr, mod) if v not in bound]


def bound_type_vars(expr: Expr | Type, mod: Any = None) -> list[TypeVar]:
    """The type variables that functions and function types bind, in order of first occurrence."""
    return list(dict.fromkeys(v for v, is_bound in _type_vars(expr) if is_bound))


def all_type_vars(expr: Expr | Type, mod: Any = None) -> list[TypeVar]:
    """The type variables in an expression or type, in order of first occurrence."""
    return list(dict.fromkeys(v for v, _ in _type_vars(expr)))


def _type_vars(root: Expr | Type) -> Iterator[tuple[TypeVar, bool]]:
    if isinstance(root, Type):
        yield from _in_type(root)
        return
    for node in reversed(list(post_order([root]))):  # binders before what they scope over
        if isinstance(node, Function):
            yield from ((p, True) for p in node.type_params if isinstance(p, TypeVar))
    for node in post_order([root]):
        for ty in _written(node):
            yield from _in_type(ty)


def _in_type(root: Type) -> Iterator[tuple[TypeVar, bool]]:
    for ty in walk(root):
        if isinstance(ty, FuncType):
            yield from ((p, True) for p in ty.type_params if isinstance(p, TypeVar))
        elif isinstance(ty, TypeData):
            yield from ((p, True) for p in ty.type_vars)
        elif isinstance(ty, TypeVar):
            yield ty, False


def _written(node: Expr) -> Iterator[Type]:
    """The types that are written at a node."""
    match node:
        case Var():
            yield from () if node.ty is None else (node.ty,)
        case Function(_, _, ret_type):
            yield from () if ret_type is None else (ret_type,)
        case MatchCast(_, target):
            yield target
        case Match(_, clauses):
            yield from _of_patterns(clauses)
        case Constructor(_, inputs):
            yield from inputs
        case _:
            yield from (a for a in getattr(node, "type_args", ()) if isinstance(a, Type))


def _of_patterns(clauses: tuple[Clause, ...]) -> Iterator[Type]:
    return (v.ty for c in clauses for v in pattern_vars(c.pattern) if v.ty is not None)


def check_kind(t: Type, mod: Any = None) -> Kind:
    """The kind of a type; TypeCheckError for one whose parts have kinds that do not fit.

    With `mod`, data types are also required to be defined there and applied to as many arguments as they take.
    """
    if isinstance(t, TypeVar | GlobalTypeVar):
        if mod is not None and isinstance(t, GlobalTypeVar) and t not in mod.type_definitions:
            raise TypeCheckError(f"the module has no data type {t.name}")
        return t.kind
    if isinstance(t, TypeData):
        return Kind.TYPE_DATA
    if isinstance(t, TypeCall):
        return _kind_of_call(t, mod)
    if isinstance(t, TupleType | FuncType | RefType):
        for part in t.children():
            kind = check_kind(part, mod)
            if kind is not Kind.TYPE and not (kind is Kind.ADT_HANDLE and _takes(part, mod) in (0, None)):
                raise TypeCheckError(f"{part} has kind {kind.value}, wanted Type", details=[f"in : {t}"])
    return Kind.TYPE


def _kind_of_call(t: TypeCall, mod: Any) -> Kind:
    if check_kind(t.func, mod) is not Kind.ADT_HANDLE:
        raise TypeCheckError(f"{t.func} is not a data type, so it takes no arguments", details=[f"in : {t}"])
    for arg in t.args:
        if check_kind(arg, mod) is not Kind.TYPE:
            raise TypeCheckError(f"{arg} is not a type", details=[f"in : {t}"])
    wanted = _takes(t.func, mod)
    if wanted is not None and wanted != len(t.args):
        raise TypeCheckError(f"{t.func} takes {wanted} arguments, got {len(t.args)}", details=[f"in : {t}"])
    return Kind.TYPE


def _takes(t: Type, mod: Any) -> int | None:
    """How many arguments a data type takes; None where there is no module to ask."""
    if mod is None or not isinstance(t, GlobalTypeVar):
        return None
    return len(mod.type_definitions[t].type_vars)


def all_dtypes(expr: Expr) -> set[str]:
    """The names of the dtypes of all tensors in a typed expression."""
    types = (node.ty for node in post_order([expr]) if node.ty is not None)
    return {part.dtype.name for ty in types for part in walk(ty) if isinstance(part, TensorType)}
