"""What is open while a method is traced: the function that it becomes, and what stands for its parameters there."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Final

from legato.arith.expr import Const, fresh
from legato.arith.expr import Expr as DimExpr
from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, TypeCheckError
from legato.ir.expr import Expr, Shape
from legato.relax.block_builder import BlockBuilder
from legato.relax.ty import as_dim

__all__ = ["Scope", "as_shape", "as_shape_dim", "current", "named_dim", "shown", "tracing"]


@dataclass(frozen=True, slots=True)
class Scope:
    """A method that is traced: its builder, and the values of parameters of the model, by their `id`.

    has_effects: whether it may print, and call functions that do.
    """

    builder: BlockBuilder
    values: Mapping[int, Expr]
    has_effects: bool = False


_open: ContextVar[Scope | None] = ContextVar("legato.relax.frontend.nn", default=None)


@contextmanager
def tracing(scope: Scope) -> Iterator[Scope]:
    """`scope` is the open one."""
    token = _open.set(scope)
    try:
        yield scope
    finally:
        _open.reset(token)


def current(what: str = "an operator") -> Scope:
    """The open scope. CompileError where there is none."""
    found = _open.get()
    if found is None:
        raise CompileError(f"{what} outside of a method that is exported", hint="export_tvm calls methods, and sees it")
    return found


# ---------------------------------------------------------------------- dims


@cache
def named_dim(name: str) -> DimVar:
    """The dim that is called `name`: one and the same wherever a shape names it."""
    if not name.isidentifier():
        raise TypeCheckError(f"{name!r} is no name of a dim")
    return fresh(name)


def as_shape_dim(value: Any) -> DimExpr:
    """A dim: an integer, a dim variable, arithmetic over these, or a text of it ("n", "2 * n + 1").

    TypeCheckError for anything else.
    """
    return as_dim(_read(value) if isinstance(value, str) else value)


def as_shape(value: Any, own: tuple[int, ...] = ()) -> list[Any]:
    """A shape, of a list of dims, or a shape as a value: integers where dims are known; those of `own` stay.

    TypeCheckError for anything else.
    """
    given = value.dims if isinstance(value, Shape) else value
    if not isinstance(given, list | tuple):
        raise TypeCheckError(f"a shape is a list of dims, got {value!r}", hint='[1, "n", 64]')
    return [d if isinstance(d, int) and d in own else shown(as_shape_dim(d)) for d in given]


def shown(dim: DimExpr) -> int | DimExpr:
    """A dim as an integer, where it is known."""
    return int(dim.value) if isinstance(dim, Const) else dim


_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}  # fmt: skip
_LONGEST: Final = 200


def _read(text: str) -> Any:
    """What a text of dims, integers, + - * // % and parentheses stands for."""
    try:
        if len(text) > _LONGEST:
            raise ValueError(f"of {len(text)} characters")
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError) as reason:
        hint = 'names, integers, + - * // % and parentheses: "n", "2 * n + 1"'
        raise TypeCheckError(f"{text[:_LONGEST]!r} is no dim", hint=hint) from reason


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name):
            return named_dim(name)
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _ARITHMETIC[type(op)](_value(left), _value(right))
    raise ValueError(ast.dump(node))
