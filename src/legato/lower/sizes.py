"""Index expressions and names as the runtime keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from legato.arith.expr import Binary, Const, Expr, Select, Var
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes
from legato.base.errors import InternalError
from legato.runtime.size import Size, combine

__all__ = ["size_of", "unique"]


def unique(names: Sequence[str]) -> list[str]:
    """`names` with a number behind those that are taken already."""
    taken: dict[str, None] = {}
    given = set(names)
    for wanted in names:
        name, n = wanted, 1
        while name in taken or (n > 1 and name in given):
            name, n = f"{wanted}_{n}", n + 1
        taken[name] = None
    return list(taken)


def size_of(e: Expr, names: Mapping[Var, str]) -> Size:
    """An index expression as data."""
    e = simplify(e)
    sizes: dict[Expr, Size] = {}
    for node in nodes(e):
        match node:
            case Const():
                sizes[node] = int(node.value)
            case Var() if node in names:
                sizes[node] = names[node]
            case Var():
                raise InternalError(f"the dim {node.name} of a size is none of the function's")
            case Binary():
                sizes[node] = combine(node.op.value, sizes[node.a], sizes[node.b])
            case Select():
                sizes[node] = ("select", sizes[node.cond], sizes[node.a], sizes[node.b])
            case _:
                raise InternalError(f"a dim holds {node}")
    return sizes[e]
