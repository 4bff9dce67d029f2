"""Types, dims and attribute values as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np

from legato.arith.expr import Const, Var
from legato.arith.expr import Expr as DimExpr
from legato.arith.printer import show as show_dim
from legato.base.dtype import DType
from legato.base.errors import CompileError
from legato.base.lexer import quote
from legato.ir._literals import float_text
from legato.ir._metadata import Metadata
from legato.ir._names import TYPE_WORDS, Names, attribute, bare, identifier
from legato.ir.constraint import Constraint
from legato.ir.types import (
    Dim,
    FuncType,
    GlobalTypeVar,
    HoleType,
    Kind,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

__all__ = ["TypePrinter"]


class TypePrinter:
    """Prints types with one set of names for the dims and type variables in them."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._names = Names(TYPE_WORDS | taken)
        self._given: dict[Var | TypeVar, str] = {}

    def name(self, var: Any) -> str:
        """The name of a dim or type variable; always the same for the same one."""
        found = self._given.get(var)
        if found is None:
            found = self._given[var] = self._unique(var)
        return found

    def _unique(self, var: Var | TypeVar) -> str:
        return self._names.unique(identifier(var.name, "d" if isinstance(var, Var) else "T"))

    def enter(self, bound: tuple[Var | TypeVar, ...]) -> dict[Var | TypeVar, str | None]:
        """Names what a function or its type binds, until `leave` is given the result.

        A name ends with its binder: one type may stand in several places, and read back these are several variables.
        """
        outer = {var: self._given.get(var) for var in bound}
        for var in outer:
            self._given[var] = self._unique(var)
        return outer

    def leave(self, outer: dict[Var | TypeVar, str | None]) -> None:
        """Gives the names that `enter` gave away free."""
        for var, name in outer.items():
            self._names.release(self._given[var])
            if name is None:
                del self._given[var]
            else:
                self._given[var] = name

    def unbound(self) -> tuple[Var, ...]:
        """The dims printed so far that no function entered binds, in order."""
        return tuple(v for v in self._given if isinstance(v, Var))

    def dim(self, dim: Dim) -> str:
        """A dim."""
        if isinstance(dim, Const):
            return str(dim.value)
        return show_dim(dim, self.name)

    def dims(self, dims: tuple[Dim, ...]) -> str:
        """A shape in parentheses."""
        return _tuple([self.dim(d) for d in dims])

    def binder(self, var: Var | TypeVar) -> str:
        """A type parameter with its kind: `A`, `n: ShapeVar`, `n: ShapeVar(1, 512)`."""
        name = self.name(var)
        if isinstance(var, TypeVar):
            return name if var.kind is Kind.TYPE else f"{name}: {var.kind.value}"
        if (var.lo, var.hi) == (0, None):
            return f"{name}: ShapeVar"
        lo, hi = ("?" if bound is None else str(bound) for bound in (var.lo, var.hi))
        return f"{name}: ShapeVar({lo}, {hi})"

    def binders(self, bound: tuple[Var | TypeVar, ...], inner: tuple[Var, ...] = ()) -> str:
        """Type parameters in brackets, with the dims that the body introduces behind `;`; empty if there are none."""
        if not bound and not inner:
            return ""
        own = ", ".join(map(self.binder, bound))
        return f"[{own}; {', '.join(map(self.binder, inner))}]" if inner else f"[{own}]"

    def type(self, ty: Type) -> str:
        """A type (types nest shallowly: the parser bounds their depth)."""
        match ty:
            case TensorType(shape, dtype):
                return f"Tensor[{self.dims(shape)}, {dtype}]" if shape else str(dtype)
            case TupleType(members):
                return _tuple([self.type(t) for t in members])
            case FuncType():
                return self._func(ty)
            case RefType(value):
                return f"ref({self.type(value)})"
            case TypeVar():
                return self.name(ty)
            case GlobalTypeVar(name):
                return type_name(name)
            case TypeCall(func, args):
                return f"{self.type(func)}[{', '.join(map(self.type, args))}]"
            case ShapeType(dims):
                return "Shape" if dims is None else f"Shape[{self.dims(dims)}]"
            case HoleType():
                return "_"
            case _:
                return repr(ty)

    def _func(self, ty: FuncType) -> str:
        outer = self.enter(ty.type_params)
        text = f"fn {self.binders(ty.type_params)}({', '.join(map(self.type, ty.params))}) -> {self.type(ty.ret)}"
        self.leave(outer)
        return text

    def value(self, value: Any, metadata: Metadata, where: str) -> str:
        """An attribute's value; CompileError for one that the text format cannot hold (`where` names it)."""
        match value:
            case list() | tuple():
                return f"[{', '.join(self.value(v, metadata, where) for v in value)}]"
            case Mapping() if all(isinstance(k, str) for k in value):
                inner = ", ".join(f"{quote(k)}: {self.value(v, metadata, where)}" for k, v in value.items())
                return f"{{{inner}}}"
            case np.ndarray():
                return metadata.refer(value, value)
            case DType(name):
                return name
            case DimExpr() | Type() | Constraint():
                return self._scalar_value(value)
            case _:
                text = _plain_value(value)
                if text is None:
                    raise CompileError(f"{where} holds a {type(value).__name__}, which has no text form")
                return text

    def _scalar_value(self, value: DimExpr | Type | Constraint) -> str:
        match value:
            case Constraint(a, b, what):
                return f"constraint[{self.dim(a)}, {self.dim(b)}, {quote(what)}]"
            case DimExpr():
                return self.name(value) if isinstance(value, Var) else f"dim[{self.dim(value)}]"
            case TensorType() if value.shape:
                return self.type(value)
            case _:
                return f"type[{self.type(value)}]"

    def attrs(self, attrs: Any, metadata: Metadata, where: str, defaults: Mapping[str, Any] | None = None) -> list[str]:
        """`name=value` for each entry of a mapping, or for each field of a record that differs from its default.

        `defaults` are those that text has where they differ from the record's.
        """
        if isinstance(attrs, Mapping):
            pairs = list(attrs.items())
        elif is_dataclass(attrs):
            pairs = [(f.name, v) for f in fields(attrs) if not is_default(f, v := getattr(attrs, f.name), defaults)]
        else:
            pairs = []
        return [f"{attribute(name)}={self.value(v, metadata, f'attribute {name} of {where}')}" for name, v in pairs]


def _plain_value(value: Any) -> str | None:
    match value:
        case None | bool():
            return str(value)
        case int() | np.integer():
            return str(int(value))
        case float() | np.floating():
            return float_text(float(value))
        case str():
            return quote(value)
        case _:
            return None


def is_default(field: Any, value: Any, defaults: Mapping[str, Any] | None = None) -> bool:
    """True if `value` is the default of a dataclass field (or of `defaults`), in type and sign too."""
    default = field.default if not defaults or field.name not in defaults else defaults[field.name]
    if default is MISSING:
        default = None if field.default_factory is MISSING else field.default_factory()
        if default is None:
            return False
    return type(default) is type(value) and repr(default) == repr(value)


def type_name(name: str) -> str:
    """The name of a data type; quoted where it would read as another type."""
    plain = bare(name)
    return plain if plain not in TYPE_WORDS and plain != "_" else quote(name)


def _tuple(items: list[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
