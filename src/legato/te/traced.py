"""Functions of te tensors on expressions: what they compute, from which of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from legato.base.errors import TypeCheckError
from legato.ir.expr import Expr, Shape, Tuple
from legato.ir.types import TensorType
from legato.te import names as te
from legato.te.tensor import Tensor, placeholder

__all__ = ["traced"]


def traced(
    function: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], name: str
) -> tuple[list[Expr], list[Tensor], list[Tensor]]:
    """What `function`, called `name` in messages, gives for tensors in place of the expressions among its arguments:
    the expressions, their tensors, and the results.

    Lists and tuples of expressions are lists of tensors, a shape is the list of its dims; anything else is passed on.
    TypeCheckError where an expression is no tensor, or the result no tensor, or several of them.
    """
    inputs: list[tuple[Expr, Tensor]] = []
    found = function(*(_given(a, inputs) for a in args), **{k: _given(v, inputs) for k, v in keywords.items()})
    listed = found if isinstance(found, list | tuple) else (found,)
    outputs = [t.tensor if isinstance(t, te.Tensor) else t for t in listed]
    odd = [t for t in outputs if not isinstance(t, Tensor)]
    if odd or not outputs:
        raise TypeCheckError(f"{name} gives {odd[0] if odd else 'nothing'!r}, wanted tensors", hint="te.compute(…)")
    return [e for e, _ in inputs], [t for _, t in inputs], outputs


def _given(value: Any, inputs: list[tuple[Expr, Tensor]]) -> Any:
    """An argument of a function of tensors; what becomes a tensor is added to `inputs`."""
    if isinstance(value, Shape):
        return list(value.dims)
    if isinstance(value, Tuple):
        return [_given(f, inputs) for f in value.fields]
    if isinstance(value, list | tuple):
        return type(value)(_given(v, inputs) for v in value)
    if not isinstance(value, Expr):
        return value
    if not isinstance(value.ty, TensorType):
        hint = "emit it first, or annotate what it depends on" if value.ty is None else None
        raise TypeCheckError(f"{value!r} is no tensor", span=value.span, hint=hint)
    for known, t in inputs:
        if known is value:
            return te.Tensor(t)
    made = placeholder(getattr(value, "name", None) or f"input{len(inputs)}", value.ty.shape, value.ty.dtype)
    inputs.append((value, made))
    return te.Tensor(made)
