"""Concatenations of many tensors become concatenations of concatenations of fewer.

concatenate((%a, %b, %c, %d))      =>      concatenate((concatenate((%a, %b)), concatenate((%c, %d))))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.errors import CompileError
from legato.base.node import transform
from legato.infer.builder import Builder
from legato.ir.expr import Call, Expr, Function, Tuple
from legato.ir.module import Module
from legato.ops.join import concatenate
from legato.transform.pass_ import FunctionPass

__all__ = ["SplitArgs"]


@dataclass(frozen=True, slots=True)
class SplitArgs(FunctionPass):
    """Typed module → typed module whose concatenations, of tensors one by one, take fewer than `max_args`, and give
    one. Without a limit where it is below 0; CompileError for 0, 1 and 2, which leave no room for two."""

    name = "split-args"
    max_args: int = 16

    def __post_init__(self) -> None:
        if 0 <= self.max_args < 3:
            raise CompileError(f"max_args is {self.max_args}, wanted 3 at least", hint="a number below 0 is no limit")

    def function(self, func: Function, mod: Module) -> Function:
        if self.max_args < 0:
            return func
        body = transform(func.body, self._split)
        return func if body is func.body else replace(func, body=body)

    def _split(self, node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.op is not concatenate or not isinstance(node.args[0], Tuple):
            return None
        limit, parts = self.max_args - 1, node.args[0].fields
        b = Builder(span=node.span)
        while len(parts) > limit:
            parts = tuple(_joined(b, parts[n : n + limit], node) for n in range(0, len(parts), limit))
        made = node if parts is node.args[0].fields else _joined(b, parts, node)
        return made if made.ty == node.ty else None


def _joined(b: Builder, parts: Sequence[Expr], like: Call) -> Expr:
    return parts[0] if len(parts) == 1 else b.call_op(concatenate, (b.tuple_(parts),), like.attrs)
