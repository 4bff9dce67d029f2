"""What may have effects: cells, and calls of functions in a module that has cells."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from legato.base.node import post_order
from legato.ir.expr import Call, Constructor, Expr, Function, RefCreate, RefRead, RefWrite
from legato.ir.module import Module
from legato.ir.op import Op

__all__ = ["Effects"]

_WITH_CELLS: Final[WeakKeyDictionary[Module, bool]] = WeakKeyDictionary()  # looked at once, not once per function


class Effects:
    """What in `func`, a function of `mod`, may have effects, so that it must neither move, nor vanish, nor be doubled.

    Coarse where the module has cells: any call of a function may have effects then. Exact, and cheap, elsewhere.
    """

    def __init__(self, func: Function, mod: Module) -> None:
        nodes = [*post_order([func.body])]
        self.possible = any(map(_is_cell, nodes)) or (any(map(_is_unknown, nodes)) and _has_cells(mod))
        self._inside: dict[int, bool] = {}
        self._kept: list[Expr] = []  # ids are keys, so the nodes they name must live

    def inside(self, node: Expr) -> bool:
        """True if evaluating `node`, operands included, may have effects."""
        if not self.possible:
            return False
        found = self._inside
        for part in post_order([node], lambda n: not isinstance(n, Function) and id(n) not in found):
            if id(part) not in found:
                self._kept.append(part)
                operands = () if isinstance(part, Function) else part.children()
                found[id(part)] = _is_cell(part) or _is_unknown(part) or any(found[id(c)] for c in operands)
        return found[id(node)]


def _has_cells(mod: Module) -> bool:
    found = _WITH_CELLS.get(mod)
    if found is None:
        found = any(_is_cell(n) for _, f in mod.graph_functions() for n in post_order([f.body]))
        _WITH_CELLS[mod] = found
    return found


def _is_cell(node: Expr) -> bool:
    return isinstance(node, RefCreate | RefRead | RefWrite)


def _is_unknown(node: Expr) -> bool:
    return isinstance(node, Call) and not isinstance(node.op, Op | Constructor)
