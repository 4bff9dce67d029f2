"""Operators by name, a user's own among them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from legato.base.errors import CompileError
from legato.ir._own_ops import op_table
from legato.ir.contents import body_nodes
from legato.ir.expr import Call
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.records import require_record
from legato.ops._table import table

__all__ = ["called", "operators", "own_operators"]


def operators(extra: Iterable[Op] = ()) -> dict[str, Op]:
    """The package's operators and `extra`, by name."""
    return {**table(), **own_operators(extra)}


def own_operators(extra: Iterable[Op]) -> dict[str, Op]:
    """`extra` by name. CompileError for what is no operator, and for a name that another one has."""
    found: dict[str, Op] = {}
    for op in map(require_record, (extra,) if isinstance(extra, Op) else extra):
        if table().get(op.name, op) is not op:
            hint = f"a prefix of your own, as in my.{op.name.rpartition('.')[2]}, is nobody else's"
            raise CompileError(f"an operator called {op.name!r} exists already", hint=hint)
        if found.setdefault(op.name, op) is not op:
            raise CompileError(f"two operators are called {op.name!r}")
    return found


def called(mod: Module, names: Collection[str]) -> tuple[Op, ...]:
    """The operators that `mod` calls by one of `names` and that are neither the package's nor the compiler's."""
    known = {**op_table({}), **table()}
    nodes = (node for _, func in mod.graph_functions() for node in body_nodes(func))
    found = (node.op for node in nodes if isinstance(node, Call) and isinstance(node.op, Op))
    return tuple(dict.fromkeys(op for op in found if op.name in names and known.get(op.name) is not op))
