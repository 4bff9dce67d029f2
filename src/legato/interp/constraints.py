"""Equalities of dims that inference left to run time: each is checked as soon as its dims have values.

Most are about the dims of a function's arguments, and are checked when it is called. A dim that a cast, a pattern or
the result of a call or branch brings has its value later; what is asked of it waits until then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from legato.arith.evaluate import evaluate
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.errors import RunError
from legato.interp.activation import Activation
from legato.interp.dims import learn
from legato.ir.constraint import Constraint, demanded, sides
from legato.ir.types import TensorType, TupleType, Type

__all__ = ["awaits", "learn_and_check", "require"]


def require(env: Activation, constraints: Iterable[Constraint]) -> None:
    """Checks what can be checked by now, and leaves the rest waiting. RunError for an equality that does not hold."""
    waiting = []
    for c in constraints:
        if any(v not in env.dims for v in variables(c.a, c.b)):
            waiting.append(c)
            continue
        if evaluate(c.a, env.dims) != evaluate(c.b, env.dims):
            a, b, otherwise = demanded(c.a, c.b)
            left, right = map(_is, sides(a, b, env.dims), (evaluate(a, env.dims), evaluate(b, env.dims)))
            raise RunError(f"{c.what}: {left} and {right} must be equal{otherwise}")
    env.waiting = tuple(waiting)


def _is(text: str, value: float | bool) -> str:
    return text if text == str(value) else f"{text} = {value}"


def learn_and_check(env: Activation, ty: Type | None, value: Any) -> None:
    """Binds the dims that `ty` names and that `value`, of that type, tells; checks what has waited for them."""
    learn(env.dims, ty, value)
    if env.waiting:
        require(env, env.waiting)


def awaits(env: Activation, ty: Type | None) -> bool:
    """True if a value of type `ty` may tell a dim that an equality waits for."""
    if not env.waiting:
        return False
    wanted = {v for c in env.waiting for v in variables(c.a, c.b) if v not in env.dims}
    todo = [ty]
    while todo:
        part = todo.pop()
        if isinstance(part, TensorType) and any(isinstance(d, DimVar) and d in wanted for d in part.shape):
            return True
        if isinstance(part, TupleType):
            todo += part.fields
    return False
