"""Partially static values: what is known of a value, and how the program that is written names it.

    value = Known(function)                     an operator, a constructor, a function of the module
          | Literal(constant)
          | Fields(values)                      a tuple
          | Made(constructor, values)           a value of a data type
          | Closure(function, activation)
          | Cell                                a reference; what it holds is in the store
          | Unknown(atom)                       what the program computes when it runs

Every value has an atom, an expression that costs nothing to evaluate. That of a closure, of data and of a cell is a
variable, whose binding is written only where the variable is (`code`).

`key` is the same number for values of which the same is known, 0 where that is nothing; `size` is a measure of what is
known: the constructors, and the magnitude of integers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from legato.arith.expr import Var as DimVar
from legato.arith.expr import fresh
from legato.base.strings import bits
from legato.ir.expr import Constant, Constructor, Expr, Function, GlobalVar, Tuple, Var
from legato.ir.op import Op
from legato.ir.types import TupleType, Type, TypeVar
from legato.transform._partial.scope import Activation

if TYPE_CHECKING:
    from legato.transform._partial.code import Code

__all__ = ["Cell", "Closure", "Fields", "Keys", "Known", "Literal", "Made", "Unknown", "Value", "is_unit", "parts"]

MAX_BYTES: Final = 4096  # of a constant that is compared by its elements


class Keys:
    """Numbers for what is known of values: equal ones have the same. Dims and type variables for types that differ in
    those alone."""

    def __init__(self) -> None:
        self._dims: list[DimVar] = []
        self._types: list[TypeVar] = []
        self._numbers: dict[Hashable, int] = {}
        self._kept: list[object] = []  # ids are keys, so the objects they name must live

    def number(self, *what: Hashable) -> int:
        """The number of `what`, from 1."""
        return self._numbers.setdefault(what, len(self._numbers) + 1)

    def dim(self, n: int) -> DimVar:
        """The dim that is the n-th in every type."""
        while len(self._dims) <= n:
            self._dims.append(fresh(f"d{len(self._dims)}", 0))
        return self._dims[n]

    def type_var(self, n: int) -> TypeVar:
        """The type variable that is the n-th in every type."""
        while len(self._types) <= n:
            self._types.append(TypeVar(f"T{len(self._types)}"))
        return self._types[n]

    def identity(self, what: object) -> int:
        """The number of an object, compared by identity."""
        self._kept.append(what)
        return self.number("object", id(what))


class Value(ABC):
    """A partially static value; see the module's grammar."""

    key: int = 0
    size: int = 0
    ty: Type | None

    def __init__(self) -> None:
        self.is_leaked = False  # code that is not known may have it

    @property
    @abstractmethod
    def atom(self) -> Expr:
        """The expression that stands for this value."""


class Unknown(Value):
    """What the program computes when it runs."""

    def __init__(self, atom: Expr) -> None:
        super().__init__()
        self._atom = atom
        self.ty = atom.ty

    @property
    def atom(self) -> Expr:
        return self._atom


class Known(Value):
    """A function that has a name of its own."""

    def __init__(self, function: Op | Constructor | GlobalVar, keys: Keys) -> None:
        super().__init__()
        self.function = function
        self.ty = function.ty
        named = function if isinstance(function, GlobalVar) else ("object", id(function))
        self.key = keys.number("function", named)

    @property
    def atom(self) -> Expr:
        return self.function


class Literal(Value):
    """A tensor."""

    def __init__(self, constant: Constant, keys: Keys) -> None:
        super().__init__()
        self.constant = constant
        self.ty = constant.ty
        data = constant.data
        if data.nbytes <= MAX_BYTES:
            self.key = keys.number("literal", data.dtype, data.shape, bits(data))
        else:
            self.key = keys.identity(data)
        if data.ndim == 0 and data.dtype.kind in "iu":
            self.size = abs(int(data))

    @property
    def atom(self) -> Expr:
        return self.constant


class Fields(Value):
    """A tuple of which the fields are told apart."""

    def __init__(self, fields: Sequence[Value], keys: Keys, ty: Type | None = None) -> None:
        super().__init__()
        self.fields = tuple(fields)
        types = [f.ty for f in fields]
        known = tuple(t for t in types if t is not None)
        self.ty = TupleType(known) if len(known) == len(types) else ty
        self.size = sum(f.size for f in fields)
        if any(f.key for f in fields):
            self.key = keys.number("tuple", *(f.key for f in fields))

    @cached_property
    def atom(self) -> Expr:
        return Tuple(tuple(f.atom for f in self.fields), ty=self.ty)


class Made(Value):
    """A value of a data type, made by a constructor that is known."""

    def __init__(self, constructor: Constructor, fields: Sequence[Value], var: Var, keys: Keys) -> None:
        super().__init__()
        self.constructor = constructor
        self.fields = tuple(fields)
        self.var = var
        self.ty = var.ty
        self.size = 1 + sum(f.size for f in fields)
        self.key = keys.number("data", id(constructor), *(f.key for f in fields))

    @property
    def atom(self) -> Expr:
        return self.var


class Closure(Value):
    """A local function with the activation in which it was made.

    `captured` are the values of the variables that it reads, those of its own name aside. `code` is its body once that
    is written.
    """

    def __init__(self, function: Function, env: Activation, var: Var) -> None:
        super().__init__()
        self.function = function
        self.env = env
        self.var = var
        self.ty = var.ty
        self.own: Var | None = None  # the variable of its own name
        self.reads: tuple[Var, ...] = ()
        self.captured: tuple[Value, ...] = ()
        self.params: tuple[Var, ...] = ()
        self.code: Code | None = None
        self.inner: Activation | None = None  # in which the body was written

    def close(self, reads: Sequence[Var], captured: Sequence[Value], keys: Keys) -> None:
        """Says which variables the function reads, and what they stand for."""
        self.reads = tuple(reads)
        self.captured = tuple(captured)
        self.size = 1 + sum(v.size for v in captured)
        self.key = keys.number("closure", id(self.function), *(v.key for v in captured))

    @property
    def atom(self) -> Expr:
        return self.var


class Cell(Value):
    """A reference that this program makes; `var` names it."""

    def __init__(self, var: Var) -> None:
        super().__init__()
        self.var = var
        self.ty = var.ty

    @property
    def atom(self) -> Expr:
        return self.var


def is_unit(value: Value) -> bool:
    """True for the tuple of nothing."""
    return isinstance(value, Fields) and not value.fields


def parts(value: Value) -> tuple[Value, ...]:
    """The values that one holds, what is in cells aside."""
    if isinstance(value, Fields | Made):
        return value.fields
    return value.captured if isinstance(value, Closure) else ()
