"""A call's attributes, from keywords to the operator's frozen dataclass, and its arguments as the call holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

import numpy as np

from legato.arith.expr import Const
from legato.arith.expr import Expr as DimExpr
from legato.base import dtype as dt
from legato.base.dtype import DType
from legato.base.errors import TypeCheckError
from legato.base.span import Span
from legato.ir.attr_types import WRONG, describe, dim_fields, field_types, fitted
from legato.ir.expr import Expr, Tuple
from legato.ir.op import Op
from legato.ir.types import TensorType

__all__ = ["default_attrs", "dims_of", "has_required", "is_symbolic", "make_attrs", "pack_args"]


def make_attrs(op: Op, given: Mapping[str, Any], span: Span | None = None) -> Any:
    """The attribute record of `op` with the fields `given` (None where the operator has no attributes).

    Lists become tuples, NumPy scalars Python numbers, and the text of a field called `…dtype` a DType.
    TypeCheckError for an attribute that the operator does not have, one that it needs, or a value of another type.
    """
    if op.attrs is None:
        if given:
            raise TypeCheckError(f"{op.name} has no attributes", span=span, details=[f"got {', '.join(given)}"])
        return None
    known = {f.name for f in fields(op.attrs)}
    unknown = [name for name in given if name not in known]
    if unknown:
        wanted = ", ".join(f.name for f in fields(op.attrs))
        message = f"{op.name} has no attribute {', '.join(map(repr, unknown))}"
        raise TypeCheckError(message, span=span, hint=f"its attributes are {wanted}")
    missing = [f.name for f in fields(op.attrs) if f.name not in given and _is_required(f)]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        raise TypeCheckError(f"{op.name} needs the attribute{plural} {', '.join(missing)}", span=span)
    wanted_types = field_types(op.attrs)
    values = {name: _plain(name, value, op, span) for name, value in given.items()}
    for name, value in values.items():
        if name in wanted_types:
            values[name] = _checked(name, value, wanted_types[name], op, span)
    return op.attrs(**values)


def has_required(op: Op) -> bool:
    """True if the operator has attributes that must be given."""
    return op.attrs is not None and any(map(_is_required, fields(op.attrs)))


def default_attrs(op: Op) -> Any:
    """The attributes with which an operator that is a value is called: its defaults. It must not need any."""
    return None if op.attrs is None else op.attrs()


def _is_required(f: Field[Any]) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


def _checked(name: str, value: Any, wanted: Any, op: Op, span: Span | None) -> Any:
    found = fitted(value, wanted)
    if found is WRONG:
        message = f"{op.name}: attribute {name} is {_short(value)}, wanted {describe(wanted)}"
        raise TypeCheckError(message, span=span)
    return found


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, DType) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _plain(name: str, value: Any, op: Op, span: Span | None) -> Any:
    if isinstance(value, list | tuple):
        return tuple([_plain("", v, op, span) for v in value])
    if isinstance(value, np.ndarray):
        return _plain("", value.tolist(), op, span) if value.ndim else value.item()
    if isinstance(value, np.generic):
        return value.item()
    # Relay's requantize has "None" for its default.
    if name.endswith(("dtype", "pack_type")) and value not in (None, "", "None"):
        return _dtype(name, value, op, span)
    return value


def _dtype(name: str, value: Any, op: Op, span: Span | None) -> DType:
    if not isinstance(value, str | DType | np.dtype | type):
        raise TypeCheckError(f"{op.name}: attribute {name} is {_short(value)}, wanted a dtype", span=span)
    try:
        return dt.dtype(value)
    except TypeCheckError as error:
        raise TypeCheckError(f"{op.name}: attribute {name}: {error.message}", span=span, hint=error.hint) from None


def pack_args(op: Op, args: Sequence[Expr], span: Span | None = None) -> tuple[Expr, ...]:
    """`args` as a call of `op` holds them: for a trailing "*name", everything from there on is one tuple expression.

    A single argument there stays as it is: it is the tuple. TypeCheckError for a wrong number of arguments.
    """
    wanted, got = len(op.args), len(args)
    variadic = bool(op.args) and op.args[-1].startswith("*")
    if got == wanted and not (variadic and _is_tensor(args[-1])):
        return tuple(args)
    if variadic and got >= wanted - 1:
        return (*args[: wanted - 1], Tuple(tuple(args[wanted - 1 :]), span=span))
    names = ", ".join(op.args) or "no arguments"
    raise TypeCheckError(f"{op.name}: got {got} arguments, wanted {wanted}: {names}", span=span)


def _is_tensor(e: Expr) -> bool:
    return isinstance(e.ty, TensorType)


def is_symbolic(op: Op, attrs: Any) -> bool:
    """Whether an attribute of a call of `op` is a dim that is not a number."""
    values = () if op.attrs is None else tuple(getattr(attrs, name) for name in dim_fields(op.attrs))
    return any(not isinstance(d, Const) for d in dims_of(values))


def dims_of(value: Any) -> tuple[DimExpr, ...]:
    """The symbolic dims inside an attribute value (tuples are searched)."""
    if isinstance(value, DimExpr):
        return (value,)
    if isinstance(value, tuple):
        return tuple(d for v in value for d in dims_of(v))
    return ()
