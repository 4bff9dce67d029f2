"""Effects in dataflow blocks, which have none: cells that are made, read or written there, also by functions called.

What a function does is known where a call names it, or a variable that is bound to it. Any other call, as of a
parameter, may be of every function of the module that is used as a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.ir.expr import (
    Call,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Var,
    callee_name,
)
from legato.ir.module import GlobalFunc
from legato.ir.op import Op
from legato.ir.scope import Placement, Scope

__all__ = ["Purity", "effects_in_dataflow"]

_UNKNOWN: Final = -1  # stands for the functions that are values, among the ids of functions
_CELLS: Final[Mapping[type[Expr], str]] = {RefCreate: "makes", RefRead: "reads", RefWrite: "writes"}


@dataclass(eq=False, slots=True)
class _Body:
    """What a function does when it is called: whether it touches cells itself, and what it calls."""

    touches: bool = False
    calls: list[Expr] = field(default_factory=list)


class Purity:
    """Which calls in a module may have effects."""

    def __init__(self, functions: Mapping[GlobalVar, GlobalFunc]) -> None:
        self._functions = functions
        self._bound: dict[Var, Expr] = {}
        self._values: list[Expr] = []  # functions that are more than called
        bodies: dict[int, _Body] = {}
        todo = [f for f in functions.values() if isinstance(f, Function)]
        kept = todo[:]  # ids are keys
        while todo:
            func = todo.pop()
            if id(func) not in bodies:
                bodies[id(func)], inner = self._body(func)
                todo += inner
                kept += inner
        self.any_cells = any(b.touches for b in bodies.values())
        self._effectful = self._closure(bodies) if self.any_cells else set[int]()

    def _body(self, func: Function) -> tuple[_Body, list[Function]]:
        body, inner = _Body(), []
        self._values.append(func.body)
        for node in post_order([func.body], lambda n: not isinstance(n, Function)):
            match node:
                case RefCreate() | RefRead() | RefWrite():
                    body.touches = True
                case Call(op, args):
                    self._values += args
                    if not isinstance(op, Op | Constructor):
                        body.calls.append(op)
                case Let(var, value, result):
                    self._bound[var] = value
                    self._values.append(result)
                case Dataflow(bindings, outputs):
                    self._bound.update(bindings)
                    self._values += outputs
                case Function():
                    inner.append(node)
                case _:
                    self._values += node.children()
        return body, inner

    def _closure(self, bodies: Mapping[int, _Body]) -> set[int]:
        """The functions that touch cells or call one that does, by id, and _UNKNOWN if one of them is a value."""
        callers: dict[int, list[int]] = {self._key(value): [_UNKNOWN] for value in self._values}
        for caller, body in bodies.items():
            for callee in body.calls:
                callers.setdefault(self._key(callee), []).append(caller)
        todo = [func for func, body in bodies.items() if body.touches]
        found: set[int] = set()
        while todo:
            func = todo.pop()
            if func not in found:
                found.add(func)
                todo += callers.get(func, ())
        return found

    def _key(self, callee: Expr) -> int:
        """The id of the function that `callee` is known to be, or _UNKNOWN."""
        seen: set[Var] = set()  # variables that are bound to each other are found out elsewhere
        while isinstance(callee, Var) and callee in self._bound and callee not in seen:
            seen.add(callee)
            callee = self._bound[callee]
        if isinstance(callee, GlobalVar):
            return id(self._functions.get(callee))
        return id(callee) if isinstance(callee, Function) else _UNKNOWN

    def effect(self, node: Expr) -> str | None:
        """What `node`, its operands aside, does to cells, in words; None if nothing."""
        does = _CELLS.get(type(node))
        if does is not None:
            return f"{does} a cell"
        if not self.any_cells or not isinstance(node, Call) or isinstance(node.op, Op | Constructor):
            return None
        key = self._key(node.op)
        certainty = "may have" if key == _UNKNOWN else "has"
        return f"calls {callee_name(node.op)}, which {certainty} effects" if key in self._effectful else None


def effects_in_dataflow(placement: Placement, purity: Purity) -> Iterator[tuple[Expr, str]]:
    """What a dataflow block evaluates though it has effects, and these in words; the last one comes first."""
    pure: dict[Scope, bool] = {placement.root: False}  # evaluated by a dataflow block
    for node in reversed(placement.order):
        outside = pure[placement.of[id(node)]]
        inside = isinstance(node, Dataflow) or (outside and not isinstance(node, Function))
        pure.update(dict.fromkeys(placement.inner.get(id(node), ()), inside))
        effect = purity.effect(node) if outside else None
        if effect is not None:
            yield node, effect
