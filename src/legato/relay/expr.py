"""Expressions: the nodes of the language under Relay's names, and what makes and changes them.

Nodes are those of `legato.ir.expr`; they are immutable, compared by identity, and answer to Relay's names of fields
(`checked_type`, `name_hint`, `true_branch`, …).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from legato.base.arrays import as_array
from legato.base.dtype import DType
from legato.base.errors import TypeCheckError, VerifyError
from legato.base.span import Span
from legato.base.strings import is_text
from legato.infer.builder import Builder
from legato.ir import expr as ir
from legato.ir.attrs import make_attrs, pack_args
from legato.ir.expr import Expr, GlobalVar
from legato.ir.op import Op
from legato.ir.types import Dim, Type, TypeVar
from legato.ir.visit import free_vars, substitute
from legato.relay._names import Named
from legato.relay.ty import TensorType, scalar_type

__all__ = ["Call", "Constant", "Expr", "Function", "GlobalVar", "If", "Let", "RefCreate", "RefRead", "RefWrite",
           "RelayExpr", "Tuple", "TupleGetItem", "TupleWrapper", "Var", "as_expr", "bind", "const", "var"]  # fmt: skip

RelayExpr = Expr


class TupleWrapper:
    """A call that gives a tuple, seen as its fields: `a, b = relay.split(x, 2)`; `astuple()` is the call itself."""

    def __init__(self, tuple_value: Expr, size: int) -> None:
        self.tuple_value = tuple_value
        self.size = size

    def astuple(self) -> Expr:
        """The tuple as one expression."""
        return self.tuple_value

    def astext(self, show_meta_data: bool = True) -> str:
        """The tuple as text."""
        return self.tuple_value.astext(show_meta_data)

    def __getitem__(self, index: int) -> Expr:
        if not -self.size <= index < self.size:
            raise IndexError(f"field {index} of a tuple of {self.size}")
        return _typed(ir.TupleGetItem(self.tuple_value, index % self.size, span=self.tuple_value.span))

    def __iter__(self) -> Iterator[Expr]:
        return (self[n] for n in range(self.size))

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"<TupleWrapper of {self.size}: {self.tuple_value!r}>"


def as_expr(value: Any) -> Expr:
    """`value` as an expression: itself, the tuple of a TupleWrapper, a tuple of a list, or a constant."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, TupleWrapper):
        return value.tuple_value
    if isinstance(value, list | tuple):
        return Tuple.build(value)
    return const(value)


def _typed(node: ir.TupleGetItem) -> Expr:
    return Builder().get(node.value, node.index) if node.value.ty is not None else node


class Var(ir.Var, metaclass=Named):
    """`Var(name_hint, type_annotation=None)`."""

    @staticmethod
    def build(name_hint: str, type_annotation: Type | None = None, span: Span | None = None) -> ir.Var:
        return ir.Var(name_hint, ty=type_annotation, span=span)


class Constant(ir.Constant, metaclass=Named):
    """`Constant(data)` of a NumPy array; `data` is a read-only copy."""

    @staticmethod
    def build(data: Any, span: Span | None = None) -> ir.Constant:
        return ir.constant(_array(data, span), None, span)


class Tuple(ir.Tuple, metaclass=Named):
    """`Tuple([a, b])`."""

    @staticmethod
    def build(fields: Iterable[Any], span: Span | None = None) -> ir.Tuple:
        return ir.Tuple(tuple(as_expr(f) for f in fields), span=span)


class TupleGetItem(ir.TupleGetItem, metaclass=Named):
    """`TupleGetItem(tuple_value, index)`."""

    @staticmethod
    def build(tuple_value: Any, index: int, span: Span | None = None) -> ir.TupleGetItem:
        return ir.TupleGetItem(as_expr(tuple_value), int(index), span=span)


class Let(ir.Let, metaclass=Named):
    """`Let(variable, value, body)`."""

    @staticmethod
    def build(variable: ir.Var, value: Any, body: Any, span: Span | None = None) -> ir.Let:
        return ir.Let(variable, as_expr(value), as_expr(body), span=span)


class If(ir.If, metaclass=Named):
    """`If(cond, true_branch, false_branch)`; the condition is a rank-0 bool."""

    @staticmethod
    def build(cond: Any, true_branch: Any, false_branch: Any, span: Span | None = None) -> ir.If:
        return ir.If(as_expr(cond), as_expr(true_branch), as_expr(false_branch), span=span)


class RefCreate(ir.RefCreate, metaclass=Named):
    """`RefCreate(value)`: a new cell."""

    @staticmethod
    def build(value: Any, span: Span | None = None) -> ir.RefCreate:
        return ir.RefCreate(as_expr(value), span=span)


class RefRead(ir.RefRead, metaclass=Named):
    """`RefRead(ref)`: the value of a cell."""

    @staticmethod
    def build(ref: Expr, span: Span | None = None) -> ir.RefRead:
        return ir.RefRead(ref, span=span)


class RefWrite(ir.RefWrite, metaclass=Named):
    """`RefWrite(ref, value)`: sets a cell; gives `()`."""

    @staticmethod
    def build(ref: Expr, value: Any, span: Span | None = None) -> ir.RefWrite:
        return ir.RefWrite(ref, as_expr(value), span=span)


class Call(ir.Call, metaclass=Named):
    """`Call(op, args, attrs=None, type_args=None)`: a call of an operator, function, global or constructor.

    `attrs` is the operator's record or a dict; None means its defaults. An operator gets as many arguments as its
    record names (TypeCheckError), where Relay would notice later.
    """

    @staticmethod
    def build(
        op: Expr,
        args: Sequence[Any],
        attrs: Any = None,
        type_args: Iterable[Type | Dim] | None = None,
        span: Span | None = None,
    ) -> ir.Call:
        exprs = tuple(as_expr(a) for a in args)
        if isinstance(op, Op):
            exprs = pack_args(op, exprs, span)
            if attrs is None or isinstance(attrs, Mapping):
                attrs = make_attrs(op, attrs or {}, span)
        elif attrs:
            raise TypeCheckError("only calls of operators have attributes", span=span)
        return ir.Call(op, exprs, attrs or None, tuple(type_args or ()), span=span)


class Function(ir.Function, metaclass=Named):
    """`Function(params, body, ret_type=None, type_params=None, attrs=None)`."""

    @staticmethod
    def build(
        params: Iterable[ir.Var],
        body: Any,
        ret_type: Type | None = None,
        type_params: Iterable[TypeVar | Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
        span: Span | None = None,
    ) -> ir.Function:
        listed = tuple(params)
        for p in listed:
            if not isinstance(p, ir.Var):
                raise TypeCheckError(f"a parameter is a variable, got {p!r}", hint="make one with relay.var")
        return ir.Function(listed, as_expr(body), ret_type, tuple(type_params or ()), dict(attrs or {}), span=span)


def var(
    name_hint: str,
    type_annotation: Type | str | None = None,
    shape: Any = None,
    dtype: DType | str = "float32",
    span: Span | None = None,
) -> ir.Var:
    """A variable: `var("x", shape=(1, n), dtype="int8")`, `var("x", ty)`, `var("i", "int32")` (a scalar), or without
    a type, which is then inferred. TypeCheckError where both a type and a shape are given."""
    if type_annotation is not None and shape is not None:
        raise TypeCheckError(f"variable {name_hint} has a type and a shape", hint="give one of them")
    if shape is not None:
        return ir.Var(name_hint, ty=TensorType.build(shape, dtype), span=span)
    ty = scalar_type(type_annotation) if isinstance(type_annotation, str) else type_annotation
    return ir.Var(name_hint, ty=ty, span=span)


def const(value: Any, dtype: DType | str | None = None, span: Span | None = None) -> ir.Constant:
    """A constant of a number, a (nested) list or a NumPy array.

    Without `dtype` an array keeps its own; numbers and lists become int32, float32 or bool.
    """
    data = _array(value, span)
    if is_text(data) and all(isinstance(text, str) for text in data.ravel().tolist()):
        return ir.constant(value, dtype, span)
    if data.dtype.kind not in "biufV":
        raise TypeCheckError(f"{type(value).__name__} is not a number, a list of numbers or an array", span=span)
    if dtype is None and not isinstance(value, np.ndarray):
        dtype = {"int64": "int32", "float64": "float32"}.get(data.dtype.name)
        if dtype == "int32" and not np.array_equal(data, data.astype("int32")):
            raise TypeCheckError("a number does not fit into int32", span=span, hint="give dtype='int64'")
    return ir.constant(data, dtype, span)


def _array(value: Any, span: Span | None) -> np.ndarray[Any, Any]:
    if isinstance(value, list | tuple):
        try:
            return np.asarray(value)
        except ValueError as error:
            raise TypeCheckError("the lists of a constant have different lengths", span=span) from error
    return as_array(value, "a constant", TypeCheckError)


def bind(expr: Expr, binds: Mapping[ir.Var, Any]) -> Expr:
    """`expr` with its free variables, or if it is a function those parameters, replaced by expressions.

    What a function's new body leaves free becomes parameters behind those that remain. The same object where nothing
    is replaced.
    """
    values = {v: as_expr(e) for v, e in binds.items()}
    if not isinstance(expr, ir.Function):
        return substitute(expr, values)
    kept = tuple(p for p in expr.params if p not in values)
    body = substitute(expr.body, values)
    if len(kept) == len(expr.params) and body is expr.body:
        return expr
    more = tuple(v for e in values.values() for v in free_vars(e) if v not in kept)
    return replace(expr, params=tuple(dict.fromkeys((*kept, *more))), body=body, ret_type=None, ty=None)


def require_closed(expr: Expr, what: str) -> None:
    """VerifyError if `expr` uses a variable that it does not bind."""
    free = free_vars(expr)
    if free:
        names = ", ".join(f"%{v.name}" for v in free)
        raise VerifyError(f"{what} uses {names}, which nothing in it binds", hint="make it a parameter, or bind it")
