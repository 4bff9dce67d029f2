"""The one injection: what `x + y`, `op(x, …)` and `builder.sum(…)` mean is set by `ops`, which lies above `ir`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from legato.base.errors import InternalError
from legato.ir.expr import Expr

__all__ = ["apply", "install"]

_hook: Callable[..., Expr] | None = None


def install(hook: Callable[..., Expr]) -> None:
    """Sets the hook `(name, *args, **attrs) -> Expr`; name "" calls the first argument."""
    global _hook
    _hook = hook


def apply(name: str, *args: Any, **attrs: Any) -> Expr:
    """The expression for operator `name` on `args`."""
    if _hook is None:
        raise InternalError("operators on expressions need legato.ops to be imported")
    return _hook(name, *args, **attrs)
