"""A function being translated: where it is written, the builder of its nodes, and values as expressions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import CompileError, TypeCheckError, UnsupportedError
from legato.base.span import Span
from legato.infer.builder import Builder
from legato.ir.expr import Expr, Function, GlobalVar, Var
from legato.ir.types import Dim, TensorType, TupleType, Type, scalar_type
from legato.script.annotations import SCALARS
from legato.script.source import Code
from legato.script.values import Bound, Closure, Decorated, Missing, Value, describe, is_atom, is_number, mapped

__all__ = ["Env", "Frame", "Program"]

Env = dict[str, Value]
Keywords = Mapping[str, Value]


class Program(Protocol):
    """What a frame may ask of the module that is being made."""

    def define(self, name: str) -> GlobalVar:
        """A new global variable called `name` or nearly so."""

    def finish(self, gv: GlobalVar, func: Function) -> None:
        """Puts a part of a function into the module as a function of its own."""

    def inline(self, frame: Frame, closure: Closure, args: Sequence[Value], keywords: Keywords) -> Value:
        """What a call of an inner function gives, translated where it is called."""

    def closure(self, frame: Frame, closure: Closure | Bound, like: Type | None) -> Expr:
        """An inner function as a function of the language."""

    def call(self, frame: Frame, function: Decorated, args: Sequence[Value], keywords: Keywords) -> Value:
        """The call of a decorated function."""

    def function(self, frame: Frame, function: Decorated) -> Expr:
        """A decorated function as a value."""

    def constant(self, frame: Frame, data: Any) -> Expr:
        """An array as a constant: the same for the same array."""


@dataclass(slots=True)
class Frame:
    """A function being translated. `name` is that of the function of the module that it becomes part of."""

    program: Program
    code: Code
    name: str
    builder: Builder = field(default_factory=Builder)
    params: list[Var] = field(default_factory=list)
    inlined: tuple[Code, ...] = ()
    result: Type | None = None  # the annotation

    # ------------------------------------------------------------------ places and errors

    @property
    def span(self) -> Span | None:
        """The place that is being translated."""
        return self.builder.span

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Nodes and errors made inside have the place of `node`."""
        source = self.code.source
        try:
            with self.builder.at(source.span(node)):
                yield
        except CompileError as error:
            if error.span is None:
                error.span = source.span(node)
            source.quote(error)
            raise

    def unsupported(self, message: str, hint: str | None = None) -> UnsupportedError:
        """The error for Python that has no meaning here, at this place."""
        return UnsupportedError(message, span=self.span, hint=hint)

    def wrong(self, message: str, hint: str | None = None, details: Sequence[str] = ()) -> TypeCheckError:
        """The error for values that do not fit, at this place."""
        return TypeCheckError(message, span=self.span, hint=hint, details=details)

    # ------------------------------------------------------------------ values

    def bind(self, name: str, value: Value) -> Value:
        """`value` with its expressions bound by lets, so that each is computed here, once."""
        shown = name.strip(".").split(".")[0] or "t"

        def let(e: Expr) -> Expr:
            return e if is_atom(e) else self.builder.let(shown, e)

        return mapped(value, let)

    def call(self, name: str, *args: Value, **attrs: Any) -> Expr:
        """The call of operator `name`; numbers take the dtype of the tensors beside them."""
        operands = [a if is_number(a) else self.expr(a) for a in args]
        return self.builder.call(name, *operands, **attrs)

    def expr(self, value: Value, like: Type | None = None) -> Expr:
        """`value` as an expression, a number in the dtype of `like`. TypeCheckError for what is none."""
        match value:
            case Expr():
                return value
            case Missing(why):
                raise self.unsupported(why)
            case Dim():
                return self._extent(value, like)
            case np.ndarray() | np.generic():
                return self.program.constant(self, value)
            case bool() | int() | float():
                return self._number(value, like)
            case tuple() | list():
                types = like.fields if isinstance(like, TupleType) and len(like.fields) == len(value) else ()
                wanted = types or (None,) * len(value)
                return self.builder.tuple_([self.expr(v, t) for v, t in zip(value, wanted, strict=True)])
            case Closure() | Bound():
                return self.program.closure(self, value, like)
            case Decorated():
                return self.program.function(self, value)
            case _:
                raise self.unsupported(f"{describe(value)} is no tensor", "Relay computes with tensors and functions")

    def _number(self, value: bool | float, like: Type | None) -> Expr:
        kind = next(k for k in SCALARS if isinstance(value, k))
        dtype = like.dtype if isinstance(like, TensorType) else SCALARS[kind]
        fits = dtype.is_float or isinstance(value, int)
        if dtype.is_bool:
            fits = isinstance(value, bool)
        elif fits and not dtype.is_float:
            fits = dtype.min <= value <= dtype.max
        if not fits:
            raise self.wrong(f"{value!r} does not fit {dtype}", "use a NumPy scalar of another dtype, or relay.cast")
        return self.builder.constant(value, dtype)

    def _extent(self, dim: Dim, like: Type | None) -> Expr:
        """A symbolic extent as a scalar: the only element of the range that begins there."""
        dtype = like.dtype if isinstance(like, TensorType) else dt.int32
        whole = dtype if not (dtype.is_float or dtype.is_bool) else dt.int32
        ranged = self.builder.call("arange", start=dim, stop=dim + 1, step=1, dtype=whole)
        scalar = self.builder.call("squeeze", ranged, axis=(0,))
        return scalar if whole == dtype else self.builder.call("cast", scalar, dtype=dtype)

    def tensor_type(self, e: Expr, what: str) -> TensorType:
        """The type of a tensor. TypeCheckError where it is not known here, or no tensor's."""
        if isinstance(e.ty, TensorType):
            return e.ty
        if e.ty is None:
            raise self.wrong(f"{what} needs a tensor whose type is known here", "annotate the parameters")
        raise self.wrong(f"{what} of a value that is no tensor", details=[f"got : {e.ty}"])

    def scalar(self, value: Value, dtype: dt.DType) -> Expr:
        """`value` as a scalar of `dtype`."""
        return self.expr(value, scalar_type(dtype))
