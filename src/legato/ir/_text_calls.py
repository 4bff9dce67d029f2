"""Calls of operators as texts from outside write them: older names and arguments, defaults, numbers for dims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from legato.base.span import Span
from legato.ir._parse_types import fit
from legato.ir._relay_ops import adapt
from legato.ir.attrs import make_attrs, pack_args
from legato.ir.expr import Call, Expr
from legato.ir.op import Op

__all__ = ["adapted_call", "operator_call"]


def operator_call(
    op: Op, args: Sequence[Expr], attrs: Mapping[str, Any], type_args: tuple[Any, ...] = (), span: Span | None = None
) -> Call:
    """The call of an operator with the attributes that were written. TypeCheckError where these do not fit."""
    given = {**op.text_defaults, **attrs} if op.text_defaults else dict(attrs)
    if op.attrs is not None and given:
        annotations = {f.name: str(f.type) for f in fields(op.attrs)}
        given = {name: fit(value, annotations.get(name, "")) for name, value in given.items()}
    return Call(op, pack_args(op, args), make_attrs(op, given), type_args, span=span)


def adapted_call(
    name: str,
    op: Op,
    args: list[Expr],
    attrs: dict[str, Any],
    ops: Mapping[str, Op],
    type_args: tuple[Any, ...] = (),
    span: Span | None = None,
) -> Call:
    """The call that was written as `name(args, attrs)`, in any version; `op` is what the name stands for."""
    now, args, attrs = adapt(name, args, attrs)
    return operator_call(op if now == name else ops.get(now, op), args, attrs, type_args, span)
