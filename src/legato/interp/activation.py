"""Activations: what one call of a function has computed and bound so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.base.errors import InternalError
from legato.ir.constraint import Constraint
from legato.ir.expr import Expr, Function, Var
from legato.ir.scope import operands, post_order

__all__ = ["Activation", "count_uses"]

_ALWAYS: Final = 1 << 60  # uses of a value that a closure may read


@dataclass(eq=False, slots=True)
class Activation:
    """One call of a function: its variables, the values of nodes that are used again, and the values of dims.

    A value is dropped after its last use, so that a long program needs no more memory than its largest moment.
    """

    parent: Activation | None  # that in which the function was made; None for a function of the module
    uses: Mapping[int, int]  # how often the function asks for each node
    dims: dict[DimVar, int]
    vars: dict[Var, Any] = field(default_factory=dict)
    values: dict[int, Any] = field(default_factory=dict)  # by id of the node
    waiting: tuple[Constraint, ...] = ()  # equalities of dims of which some have no value yet
    _read: dict[int, int] = field(default_factory=dict)

    def variable(self, var: Var) -> Any:
        """What `var` stands for, here or in the activations around."""
        at: Activation | None = self
        while at is not None:
            if var in at.vars:
                value = at.vars[var]
                if at is self and self._is_last(-var.uid):
                    del self.vars[var]
                return value
            at = at.parent
        raise InternalError(f"%{var.name} is read before it is bound")

    def recall(self, node: Expr) -> Any:
        """The value of `node` if it has been computed in this call; else None."""
        value = self.values.get(id(node))
        if value is not None and self._is_last(id(node)):
            del self.values[id(node)]
        return value

    def keep(self, node: Expr, value: Any) -> None:
        """Remembers the value of `node`, just computed, if it will be asked for again."""
        if self.uses.get(id(node), 1) > 1:
            self._read[id(node)] = 1
            self.values[id(node)] = value

    def _is_last(self, key: int) -> bool:
        """Counts a use; True if it is the last one."""
        count = self._read[key] = self._read.get(key, 0) + 1
        return count >= self.uses.get(key, 1)


def count_uses(func: Function) -> dict[int, int]:
    """How often one activation of `func` asks for each node (by id) and variable (by -uid).

    A variable that a closure in it reads is asked for always: the closure may be called any number of times. Nodes it
    computes itself.
    """
    uses: dict[int, int] = {}
    closures: list[Function] = []
    seen: set[int] = set()
    stack: list[Expr] = [func.body]
    while stack:
        for kid in operands(stack.pop()):
            key = _key(kid)
            uses[key] = uses.get(key, 0) + 1
            if key in seen:
                continue
            seen.add(key)
            if isinstance(kid, Function):
                closures.append(kid)
            else:
                stack.append(kid)
    if isinstance(func.body, Function):
        return _all_in(func.body)
    for closure in closures:
        uses.update(_all_in(closure))
    return uses


def _all_in(closure: Function) -> dict[int, int]:
    return {_key(node): _ALWAYS for node in post_order(closure.body) if isinstance(node, Var)}


def _key(node: Expr) -> int:
    return -node.uid if isinstance(node, Var) else id(node)
