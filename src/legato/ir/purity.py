"""Effects in dataflow blocks, which have none: cells that are made, read or written there, operators whose results are
no function of their arguments, or which do something outside of the program; also in functions that are called.

What a function does is known where a call names it, or a variable that is bound to it. Any other call, as of a
parameter, may be of every function of the module that is used as a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from legato.ir.callees import Callee, Callees
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
    callee_name,
)
from legato.ir.module import GlobalFunc
from legato.ir.op import Op
from legato.ir.packed import PackedAttrs
from legato.ir.scope import Placement, Scope

__all__ = ["Purity", "effects_in_dataflow"]

_CELLS: Final[Mapping[type[Expr], str]] = {RefCreate: "makes", RefRead: "reads", RefWrite: "writes"}


class Purity:
    """Which calls in a module may have effects."""

    def __init__(self, functions: Mapping[GlobalVar, GlobalFunc]) -> None:
        self._callees = Callees(functions)
        touching = [f for f, nodes in self._callees.bodies.items() if any(map(_own, nodes))]
        self.any_effects = bool(touching)
        self._effectful = self._closure(touching) if touching else set[Callee | None]()

    def _closure(self, touching: Iterable[Function]) -> set[Callee | None]:
        """The functions that touch cells or call one that does, and None, all that are not known, if one of them is a
        value."""
        of = self._callees.of
        callers: dict[Callee | None, list[Function | None]] = {}
        for caller, nodes in self._callees.bodies.items():
            for node in nodes:
                if isinstance(node, Call) and not isinstance(node.op, Op | Constructor):
                    callers.setdefault(of(node.op), []).append(caller)
            for value in _values(caller, nodes):
                callers.setdefault(of(value), []).append(None)
        todo: list[Callee | None] = [*touching]
        found: set[Callee | None] = set()
        while todo:
            func = todo.pop()
            if func not in found:
                found.add(func)
                todo += callers.get(func, ())
        return found

    def effect(self, node: Expr) -> str | None:
        """What `node`, its operands aside, does beside giving a value, in words; None if nothing."""
        does = _own(node)
        if does is not None:
            return does
        if not self.any_effects or not isinstance(node, Call) or isinstance(node.op, Op | Constructor):
            return None
        func = self._callees.of(node.op)
        certainty = "may have" if func is None else "has"
        return f"calls {callee_name(node.op)}, which {certainty} effects" if func in self._effectful else None


def _own(node: Expr) -> str | None:
    """What a node does to cells, or as a call of an operator."""
    if isinstance(node, Call) and isinstance(node.op, Op) and node.op.stateful:
        name = f" {node.attrs.name!r}" if isinstance(node.attrs, PackedAttrs) else ""
        return f"calls {node.op.name}{name}, which has effects"
    does = _CELLS.get(type(node))
    return None if does is None else f"{does} a cell"


def _values(func: Function, nodes: Iterable[Expr]) -> Iterator[Expr]:
    """What is more than called in a function."""
    yield func.body
    for node in nodes:
        match node:
            case Call(args=args):
                yield from args
            case Let(body=result):
                yield result
            case Dataflow(outputs=outputs):
                yield from outputs
            case Function():
                pass
            case _:
                yield from node.children()


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
