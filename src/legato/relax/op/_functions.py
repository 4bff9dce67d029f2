"""Operator functions, made of the table of scripts: `function("nn.conv2d")(data, weight, padding=1)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from legato.infer.builder import Builder
from legato.ir.expr import Expr
from legato.script.modules.operators import OPERATORS, applied
from legato.te.scalar import plain

__all__ = ["function", "names", "namespace"]


def names(prefix: str = "") -> tuple[str, ...]:
    """The operators directly below `prefix` ("nn." or ""), without it."""
    below = (name.removeprefix(prefix) for name in OPERATORS if name.startswith(prefix))
    return tuple(name for name in below if "." not in name)


@cache
def function(name: str) -> Callable[..., Expr]:
    """The function that builds typed calls of operator `name`; KeyError if there is none.

    It raises TypeCheckError where arguments do not fit: calls are typed when they are made.
    """
    rule = OPERATORS[name]

    def build(*args: Any, **keywords: Any) -> Expr:
        given = {k: _given(v) for k, v in keywords.items()}
        made: Expr = applied(Builder(), f"relax.op.{name}", rule, [_given(a) for a in args], given)
        return made

    build.__name__, build.__qualname__ = name.rpartition(".")[2], f"relax.op.{name}"
    build.__doc__ = f"A call of Relax's operator {name}."
    return build


def _given(value: Any) -> Any:
    """An argument, where dims may be scalars of tensor expressions."""
    if isinstance(value, list | tuple):
        return type(value)(_given(v) for v in value)
    return plain(value)


def namespace(prefix: str, own: Mapping[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose functions are the operators below `prefix`, beside its `own`."""

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if prefix + name in OPERATORS:
            return function(prefix + name)
        close = get_close_matches(prefix + name, OPERATORS, 1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise AttributeError(f"there is no operator relax.op.{prefix}{name}{hint}")

    return get, lambda: sorted({*own, *names(prefix)})
