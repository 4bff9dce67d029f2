"""Forms of `R` that need the reader: `ReaderCall` names one, and its rule is given the reader and what is written."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from legato.arith.expr import Expr as Dim
from legato.base.dataclass import dataclass
from legato.base.dtype import DType
from legato.base.errors import CompileError, TypeCheckError
from legato.ir.constraint import Constraint
from legato.ir.expr import Constant, Expr, constant
from legato.ir.types import Type
from legato.tir import scalars

if TYPE_CHECKING:
    from legato.script.modules.graph import GraphReader

__all__ = ["ReaderCall", "constraint", "decoded", "match_cast", "meta", "ref", "ref_read", "ref_write",
           "shape", "tuple_", "type_"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReaderCall:
    """`R.name(…)` where that takes the reader; `rule` gets it and what is written."""

    name: str
    rule: Callable[..., Any]

    def apply(self, reader: GraphReader, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """What the call stands for. TypeCheckError where the arguments do not fit."""
        try:
            signature(self.rule).bind(reader, *args, **keywords)
        except TypeError as error:
            raise TypeCheckError(f"R.{self.name}: {error}") from None
        return self.rule(reader, *args, **keywords)

    def __call__(self, *_: Any, **__: Any) -> Any:
        hint = "write it in a function under @R.function"
        raise CompileError(f"R.{self.name} is called in a script only", hint=hint)


def match_cast(reader: GraphReader, value: Any, struct_info: Any) -> Expr:
    """`value`, checked when it runs to have a type; dims that are new in it are bound."""
    return reader.b.match_cast(reader.expr(value), reader.type(struct_info))


def ref(reader: GraphReader, value: Any) -> Expr:
    """A new cell that holds `value`."""
    return reader.b.ref(reader.expr(value))


def ref_read(reader: GraphReader, cell: Any) -> Expr:
    """What a cell holds."""
    return reader.b.read(reader.expr(cell))


def ref_write(reader: GraphReader, cell: Any, value: Any) -> Expr:
    """Sets a cell; the result is the unit value."""
    return reader.b.write(reader.expr(cell), reader.expr(value))


def shape(reader: GraphReader, values: Any) -> Expr:
    """Dims as a value."""
    return reader.b.shape([v if isinstance(v, Dim) else int(v) for v in values])


def tuple_(reader: GraphReader, *fields: Any) -> Expr:
    """A tuple of values."""
    return reader.b.tuple_([reader.expr(f) for f in fields])


def type_(reader: GraphReader, form: Any) -> Type:
    """The type that an annotation stands for."""
    return reader.type(form)


def constraint(reader: GraphReader, a: Any, b: Any, what: str) -> Constraint:
    """`a == b`, which `what` requires."""
    return Constraint(scalars.as_index(a, "a dim"), scalars.as_index(b, "a dim"), what)


def meta(reader: GraphReader, name: str) -> Constant:
    """The constant that has an array beside the text."""
    given = reader.options.constants or {}
    if name not in given:
        hint = "legato.script.parse(text, constants=…) takes what legato.script.show(module, constants=…) collected"
        raise TypeCheckError(f"no array is given for the constant {name!r}", hint=hint)
    return constant(given[name], None, reader.b.span)


def decoded(text: str, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """The array whose elements, in rows, have the bytes that `text` has in base 64."""
    try:
        raw = base64.b64decode(text, validate=True)
        if dtype.is_bool and raw.strip(b"\x00\x01"):
            raise ValueError("a byte of bool that is neither 0 nor 1")
        if dtype.is_string and not raw:
            return np.empty(0, dtype.numpy).reshape(shape)  # others are written out
        return np.frombuffer(raw, dtype.numpy).reshape(shape)
    except ValueError as error:
        raise TypeCheckError(f"R.array: {error}") from error
