"""The one injection: what `x + y`, `op(x, …)` and `builder.sum(…)` mean is set by `ops`, which lies above `ir`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from legato.base.errors import InternalError

if TYPE_CHECKING:
    from legato.ir.expr import Expr
    from legato.ir.op import Op

__all__ = ["apply", "install", "operators"]

_hook: Callable[..., Expr] | None = None
_table: Callable[[], Mapping[str, Op]] | None = None


def install(hook: Callable[..., Expr], table: Callable[[], Mapping[str, Op]]) -> None:
    """Sets the hook `(name, *args, **attrs) -> Expr` (name "" calls the first argument) and the operators by name."""
    global _hook, _table
    _hook, _table = hook, table


def apply(name: str, *args: Any, **attrs: Any) -> Expr:
    """The expression for operator `name` on `args`."""
    if _hook is None:
        raise InternalError("operators on expressions need legato.ops to be imported")
    return _hook(name, *args, **attrs)


def operators() -> Mapping[str, Op]:
    """Every operator by name."""
    if _table is None:
        raise InternalError("operators by name need legato.ops to be imported")
    return _table()
