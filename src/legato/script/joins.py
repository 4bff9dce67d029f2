"""Two paths that meet: a value that differs by the path becomes an `if`; what is the same on both stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from legato.base.dataclass import dataclass
from legato.ir.expr import Expr
from legato.ir.let import lets
from legato.ir.types import Dim, TensorType, scalar_type
from legato.script.frame import Frame
from legato.script.values import Bound, Closure, Decorated, Missing, Value, describe, is_number, runs_code, same

__all__ = ["condition", "either", "pack", "unpack"]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a part of the `if` belongs in a value."""

    index: int


def either(
    frame: Frame, cond: Expr, then: Callable[[], Value], orelse: Callable[[], Value], names: Sequence[str] = ()
) -> Value:
    """The value of `then` if `cond` holds, else of `orelse`; each is translated into its own branch.

    `names` are those of the fields, for messages, where the values are tuples of variables.
    """
    span = frame.span
    with frame.builder.bindings() as first:
        a = then()
    with frame.builder.bindings() as second:
        b = orelse()
    with frame.builder.at(span):
        parts: list[tuple[Expr, Expr]] = []
        if names:
            shape: Value = tuple(_merged(frame, x, y, parts, n) for x, y, n in zip(a, b, names, strict=True))
        else:
            shape = _merged(frame, a, b, parts, "")
        if not parts:
            return shape
        sides = [pack(frame, [p[n] for p in parts]) for n in (0, 1)]
        node = frame.builder.if_(cond, lets(first, sides[0]), lets(second, sides[1]))
        return _filled(shape, unpack(frame, node, len(parts), "if"))


def pack(frame: Frame, parts: Sequence[Expr]) -> Expr:
    """Several expressions as one: a tuple, unless there is one."""
    return parts[0] if len(parts) == 1 else frame.builder.tuple_(parts)


def unpack(frame: Frame, packed: Expr, count: int, name: str) -> list[Expr]:
    """The expressions that `pack` has made one."""
    if count == 1:
        return [packed]
    bound = frame.bind(name, packed)
    return [frame.builder.get(bound, n) for n in range(count)]


def _merged(frame: Frame, a: Value, b: Value, parts: list[tuple[Expr, Expr]], name: str) -> Value:
    if same(a, b):
        return a
    for one in (a, b):
        if isinstance(one, Missing):
            return one
    if isinstance(a, tuple | list) and isinstance(b, tuple | list) and len(a) == len(b):
        return tuple([_merged(frame, x, y, parts, name) for x, y in zip(a, b, strict=True)])
    pair = _expressions(frame, a, b, name)
    parts.append(pair)
    return _Place(len(parts) - 1)


def _expressions(frame: Frame, a: Value, b: Value, name: str) -> tuple[Expr, Expr]:
    """Both values as expressions; a number takes the dtype of what the other is."""
    if is_number(a) and is_number(b):
        kind = float if float in (type(a), type(b)) else int if int in (type(a), type(b)) else bool
        return frame.expr(kind(a)), frame.expr(kind(b))
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Expr | Dim | tuple | list | Closure | Bound | Decorated) and not is_number(one):
            if isinstance(one, np.ndarray | np.generic):
                continue
            what = f"`{name}` is" if name else "the result is"
            message = f"{what} {describe(one)} on one path and {describe(other)} on the other"
            raise frame.wrong(message, "both paths of a branch give tensors of one type")
    first = frame.expr(a, b.ty if isinstance(b, Expr) else None)
    second = frame.expr(b, first.ty if not isinstance(b, Expr) else None)
    return first, second


def _filled(shape: Value, parts: Sequence[Expr]) -> Value:
    if isinstance(shape, _Place):
        return parts[shape.index]
    return tuple([_filled(s, parts) for s in shape]) if isinstance(shape, tuple) else shape


def condition(frame: Frame, value: Value) -> bool | Expr:
    """A condition: a bool where it is known now, else a scalar of the program."""
    if isinstance(value, Expr):
        if value.ty is None or value.ty == scalar_type("bool"):
            return value
        shown = value.ty.dtype if isinstance(value.ty, TensorType) and not value.ty.rank else value.ty
        hints = {True: "compare it: x != 0"}
        hint = hints.get(isinstance(value.ty, TensorType) and not value.ty.rank, "use relay.all or relay.any")
        raise frame.wrong("the condition is no single bool", hint, [f"got    : {shown}", "wanted : bool"])
    if isinstance(value, Dim):
        return frame.call("not_equal", frame.expr(value), 0)
    if isinstance(value, Missing):
        raise frame.unsupported(value.why)
    if isinstance(value, np.ndarray) and value.ndim:
        raise frame.wrong("the condition is no single bool", "use relay.all or relay.any", [f"got : {describe(value)}"])
    if runs_code(value, "__bool__", "__len__"):
        raise frame.unsupported(f"whether {describe(value)} is true is computed by Python code")
    known: Any = value
    return bool(known)
