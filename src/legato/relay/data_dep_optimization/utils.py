"""What changes of programs together with their parameters have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from legato.base.kinds import require, require_mapping
from legato.ir.expr import Function
from legato.relay._passes import Pass
from legato.relay.module import IRModule

__all__ = ["named", "run_pass", "taken"]


def named(params: Any) -> dict[str, Any]:
    """A copy of the parameters by name; CompileError for what has no names."""
    return dict(require_mapping(params, "params", "arrays by name"))


def run_pass(func: Function, step: Pass) -> Function:
    """What a pass makes of a function, as @main of a module."""
    require(isinstance(func, Function), func, "the program", "a function")
    found: Function = step(IRModule.from_expr(func))["main"]
    return found


def taken(func: Function, params: Mapping[str, Any], new: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The parameters of `func`, which those of these names were replaced in: the given ones but where they are replaced
    everywhere, and the new ones that it takes."""
    own = {p.name for p in func.params}
    gone = set(names) - own
    kept = {name: value for name, value in params.items() if name not in gone}
    return {**kept, **{name: value for name, value in new.items() if name in own and name not in params}}
