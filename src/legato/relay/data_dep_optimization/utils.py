"""What changes of programs together with their parameters have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from legato.ir.expr import Function
from legato.relay._passes import Pass
from legato.relay.module import IRModule

__all__ = ["run_pass", "taken"]


def run_pass(func: Function, step: Pass) -> Function:
    """What a pass makes of a function, as @main of a module."""
    found: Function = step(IRModule.from_expr(func))["main"]
    return found


def taken(func: Function, params: Mapping[str, Any], new: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The parameters of `func`, which those of these names were replaced in: the given ones but where they are replaced
    everywhere, and the new ones that it takes."""
    own = {p.name for p in func.params}
    gone = set(names) - own
    kept = {name: value for name, value in params.items() if name not in gone}
    return {**kept, **{name: value for name, value in new.items() if name in own and name not in params}}
