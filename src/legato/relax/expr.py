"""Expressions under Relax's names. They are the language's nodes: immutable, compared by identity, typed at birth.

A variable of a dataflow block is a variable, whatever it is called; a prim value is a scalar constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from legato.base.arrays import as_array
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.base.span import Span
from legato.infer.builder import Builder
from legato.infer.holes import dim_vars
from legato.ir import expr as ir
from legato.ir.expr import Expr, GlobalVar
from legato.ir.op import Op
from legato.ir.types import HoleType, TensorType, TupleType
from legato.relax.ty import as_dim, as_type
from legato.relay._names import Named
from legato.relay.expr import Call as RelayCall
from legato.relay.expr import const

__all__ = ["Call", "Constant", "DataTypeImm", "DataflowVar", "Expr", "ExternFunc", "Function", "GlobalVar", "If",
           "PrimValue", "ShapeExpr", "StringImm", "Tuple", "TupleGetItem", "Var", "as_expr", "const", "field_of",
           "get_shape_of", "prim_value"]  # fmt: skip


def as_expr(value: Any) -> Expr:
    """`value` as an expression: itself, a tuple of a list, or a constant."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, list | tuple):
        return Builder().tuple_([as_expr(v) for v in value])
    return const(value)


class Var(ir.Var, metaclass=Named):
    """`Var(name_hint, struct_info=None)`: a variable of a type, or of one that is inferred."""

    @staticmethod
    def build(name_hint: str, ty: Any = None, span: Span | None = None, *, struct_info: Any = None) -> ir.Var:
        given = struct_info if ty is None else ty
        found = None if given is None else as_type(given)
        return ir.Var(name_hint, ty=None if isinstance(found, HoleType) else found, span=span)


DataflowVar = Var


class Constant(ir.Constant, metaclass=Named):
    """`Constant(data)` of an array; `data` is a read-only copy."""

    @staticmethod
    def build(data: Any, struct_info: Any = None, span: Span | None = None) -> ir.Constant:
        found = ir.constant(as_array(data, "a constant", TypeCheckError), None, span)
        if struct_info is not None and as_type(struct_info) != found.ty:
            raise TypeCheckError(f"a constant of {found.ty}, wanted {as_type(struct_info)}", span=span)
        return found


class Tuple(ir.Tuple, metaclass=Named):
    """`Tuple([a, b])`."""

    @staticmethod
    def build(fields: Iterable[Any], span: Span | None = None) -> ir.Tuple:
        return Builder(span=span).tuple_([as_expr(f) for f in fields])


class TupleGetItem(ir.TupleGetItem, metaclass=Named):
    """`TupleGetItem(tuple_value, index)`."""

    @staticmethod
    def build(tuple_value: Any, index: int, span: Span | None = None) -> ir.TupleGetItem:
        return field_of(as_expr(tuple_value), int(index), span)


def field_of(value: Expr, index: int, span: Span | None = None) -> ir.TupleGetItem:
    """Field `index` of a tuple, typed where that is. TypeCheckError where it is none, or has no such field."""
    ty = value.ty
    if ty is not None and not (isinstance(ty, TupleType) and 0 <= index < len(ty.fields)):
        raise TypeCheckError(f"field {index} of a value of {ty}", span=span)
    return ir.TupleGetItem(value, index, ty=ty.fields[index] if isinstance(ty, TupleType) else None, span=span)


class ShapeExpr(ir.Shape, metaclass=Named):
    """`ShapeExpr([n, 4])`: dims as a value."""

    @staticmethod
    def build(values: Iterable[Any], span: Span | None = None) -> ir.Shape:
        return Builder(span=span).shape([as_dim(v) for v in values])


class PrimValue(ir.Constant, metaclass=Named):
    """`PrimValue(4)`: a scalar of int64, float64 or bool."""

    @staticmethod
    def build(value: Any, span: Span | None = None) -> ir.Constant:
        if not isinstance(value, bool | int | float | np.generic):
            raise UnsupportedError(
                f"a prim value of {value!r}: only of numbers", hint="ShapeExpr([n]) is a dim's value"
            )
        return ir.constant(np.asarray(value), None, span)


def prim_value(value: Any) -> ir.Constant:
    """A scalar of int64, float64 or bool."""
    return PrimValue.build(value)


class If(ir.If, metaclass=Named):
    """`If(cond, true_branch, false_branch)`; the condition is a scalar of bool."""

    @staticmethod
    def build(cond: Any, true_branch: Any, false_branch: Any, span: Span | None = None) -> ir.If:
        return Builder(span=span).if_(as_expr(cond), as_expr(true_branch), as_expr(false_branch))


class Call(ir.Call, metaclass=Named):
    """`Call(op, args, attrs=None)`: a call of an operator of the language, or of a function."""

    @staticmethod
    def build(
        op: Expr, args: Sequence[Any], attrs: Any = None, sinfo_args: Sequence[Any] | None = None,
        span: Span | None = None,
    ) -> ir.Call:  # fmt: skip
        if sinfo_args:
            hint = "leave sinfo_args out; match_cast says more of a value's type"
            raise UnsupportedError(
                "a call has no types of its own: they follow from its arguments", span=span, hint=hint
            )
        if isinstance(op, Op):
            made = RelayCall.build(op, args, attrs, span=span)
            return Builder(span=span).call_op(op, made.args, made.attrs)
        if attrs:
            raise TypeCheckError("only calls of operators have attributes", span=span)
        return Builder(span=span).apply(op, [as_expr(a) for a in args])


class Function(ir.Function, metaclass=Named):
    """`Function(params, body, ret_struct_info=None, is_pure=True, attrs=None)`; its type comes with its module's."""

    @staticmethod
    def build(
        params: Iterable[ir.Var], body: Any, ret_ty: Any = None, is_pure: bool = True,
        attrs: Mapping[str, Any] | None = None, span: Span | None = None, *, ret_struct_info: Any = None,
    ) -> ir.Function:  # fmt: skip
        listed = tuple(params)
        for p in listed:
            if not isinstance(p, ir.Var):
                raise TypeCheckError(f"a parameter is a variable, got {p!r}", hint="make one with relax.Var")
        ret = ret_struct_info if ret_ty is None else ret_ty
        own = dict.fromkeys(v for p in listed if p.ty is not None for v in dim_vars(p.ty))
        found = dict(attrs or {}) | ({} if is_pure else {"pure": False})
        return ir.Function(
            listed, as_expr(body), None if ret is None else as_type(ret), tuple(own), found, span=span
        )  # fmt: skip


class _Refused(type):
    """What Relax has, and programs here have not."""

    reason: str
    instead: str  # what works

    def __call__(cls, *_: object, **__: object) -> NoReturn:
        raise UnsupportedError(f"there is no relax.{cls.__name__}: {cls.reason}", hint=cls.instead)

    def __instancecheck__(cls, instance: object) -> bool:
        return False


class StringImm(metaclass=_Refused):
    """A string as a value: there are none."""

    reason = "strings are no values of a program"
    instead = "a tensor of strings, relax.const(np.array(…, object)); or an attribute of the call"


class DataTypeImm(metaclass=_Refused):
    """A dtype as a value: there are none."""

    reason = "dtypes are no values of a program"
    instead = 'give the operator its dtype as an attribute: dtype="float32"'


class ExternFunc(metaclass=_Refused):
    """A function outside of the module, as a value: there are none."""

    reason = "functions outside of a module are no values"
    instead = "R.call_packed(name, …) calls one by its name (docs/packed.md)"


def get_shape_of(expr: Expr) -> ir.Shape:
    """The shape of a tensor as a value. TypeCheckError where it is no tensor, or not typed yet."""
    if not isinstance(expr.ty, TensorType):
        raise TypeCheckError(f"the shape of {expr!r}, which is no tensor", span=expr.span)
    return Builder(span=expr.span).shape(expr.ty.shape)
