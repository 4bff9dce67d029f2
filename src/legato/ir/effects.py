"""What evaluating a node does beside giving a value: it touches cells, may fail, or may not end.

Passes ask here and nowhere else. What does none of the three may be computed earlier, later, once or never; all other
nodes are computed where, when and as often as the program's order says (docs/language_order.md). The facts come
from the nodes and the operators' records: an operator whose result is not a function of its arguments counts as one
that touches a cell, one that has no compute runs Python code, which may fail. A function does what its body does, and
may not end where it is called from within itself; of a function that is a value nothing is known.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final
from weakref import WeakKeyDictionary

from legato.arith.expr import Var as DimVar
from legato.arith.prove import prove_equal
from legato.arith.substitute import variables
from legato.base.graph import components
from legato.base.node import post_order
from legato.ir._dims import free_dims
from legato.ir.callees import Callee, Callees
from legato.ir.devices import PLACING
from legato.ir.dim_values import dim_pairs
from legato.ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Var,
)
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import operands, pattern_vars
from legato.ir.scope import post_order as expr_nodes
from legato.ir.types import TensorType
from legato.ir.updates import UPDATES

__all__ = ["Effect", "Effects", "brought_dims", "is_sure"]


class Effect(enum.Flag):
    """What evaluating something does beside giving a value."""

    NONE = 0
    CELLS = enum.auto()  # touches a cell, or gives another value every time: neither moved, nor dropped, nor doubled
    FAILS = enum.auto()  # may end the program with an error
    LOOPS = enum.auto()  # may not end


_SURE: Final = (*UPDATES, *PLACING)  # operators without a compute that cannot fail
_PARTIAL: Final = Effect.FAILS | Effect.LOOPS


class Effects:
    """The effects of nodes in `func`, a function of `mod` or a later form of one."""

    def __init__(self, func: Function, mod: Module) -> None:
        self._known = _behaviour(mod)
        self._late: set[DimVar] = set()
        self._found: dict[int, Effect] = {}
        self._kept: list[Expr] = []  # ids are keys, so the nodes they name must live
        self.possible = not self._known.is_free(func)
        if self.possible:
            nodes = list(expr_nodes(func))
            self._late.update(d for f in nodes if isinstance(f, Function) for d in _late_dims(f))
            self.possible = any(map(self.own, nodes))

    def own(self, node: Expr) -> Effect:
        """What evaluating `node` does, its operands, branches and clauses aside."""
        found = self._known.own(node)
        if self._late and not isinstance(node, Function) and not self._late.isdisjoint(brought_dims(node)):
            found |= Effect.FAILS  # an equality of these dims is checked then
        return found

    def of(self, node: Expr) -> Effect:
        """What evaluating `node` does, with operands, and whichever branch or clause is taken."""
        found = self._found
        for part in post_order([node], lambda n: not isinstance(n, Function) and id(n) not in found):
            if id(part) not in found:
                self._kept.append(part)
                result = self.own(part)
                for operand in () if isinstance(part, Function) else operands(part):
                    result |= found[id(operand)]
                found[id(part)] = result
        return found[id(node)]

    def inside(self, node: Expr) -> bool:
        """True if evaluating `node`, operands included, does more than give a value."""
        return self.possible and bool(self.of(node))


def is_sure(cast: MatchCast) -> bool:
    """True if a cast checks nothing and brings no dims."""
    ty, target = cast.value.ty, cast.target
    if ty is None or ty == target:
        return ty is not None
    return isinstance(ty, TensorType) and all(prove_equal(got, wanted) for got, wanted in dim_pairs(ty, target))


def _late_dims(func: Function) -> Iterator[DimVar]:
    """The dims in constraints of `func` that its arguments do not tell: what brings them is checked then."""
    constraints = func.attrs.get("constraints", ())
    if constraints:
        told = {d for p in func.params if p.ty is not None for d in free_dims(p.ty)}
        yield from (d for c in constraints for d in variables(c.a, c.b) if d not in told)


def brought_dims(node: Expr) -> set[DimVar]:
    """The dims that evaluating `node` brings: those of its type that no operand's type has, and of its patterns."""
    found = set() if node.ty is None or isinstance(node, Var) else set(free_dims(node.ty))
    for operand in operands(node) if found else ():
        found.difference_update(() if operand.ty is None else free_dims(operand.ty))
    if isinstance(node, Match):
        types = (v.ty for c in node.clauses for v in pattern_vars(c.pattern))
        found.update(d for ty in types if ty is not None for d in free_dims(ty))
    return found


_KNOWN: Final[WeakKeyDictionary[Module, _Behaviour]] = WeakKeyDictionary()  # looked at once, not once per function


def _behaviour(mod: Module) -> _Behaviour:
    found = _KNOWN.get(mod)
    if found is None:
        found = _KNOWN[mod] = _Behaviour(mod)
    return found


class _Behaviour:
    """What the functions of a module do when they are called, local ones too."""

    def __init__(self, mod: Module) -> None:
        self._callees = Callees(mod.functions)
        self._does: dict[Callee, Effect] = {}
        self._unknown = _PARTIAL
        bodies = self._callees.bodies
        if any(_touches(n) for nodes in bodies.values() for n in nodes):
            self._unknown |= Effect.CELLS
        self._conclude(bodies)
        self._free: set[Function] = set()
        for func, nodes in reversed(bodies.items()):  # functions inside come first
            inner = (n in self._free for n in nodes if isinstance(n, Function))
            if not func.attrs.get("constraints") and not any(map(self.own, nodes)) and all(inner):
                self._free.add(func)

    def is_free(self, func: Function) -> bool:
        """True if nothing in `func`, a function of the module, does more than give a value."""
        return func in self._free

    def _conclude(self, bodies: Mapping[Function, list[Expr]]) -> None:
        """Callees first; functions that call each other do what any of them does."""
        calls = {
            func: [f for n in nodes if isinstance(n, Call) and isinstance(f := self._callees.of(n.op), Function)]
            for func, nodes in bodies.items()
        }
        for component in components(calls):
            is_loop = len(component) > 1 or component[0] in calls[component[0]]
            found = Effect.LOOPS if is_loop else Effect.NONE
            self._does.update(dict.fromkeys(component, found))
            for func in component:
                if func.attrs.get("constraints"):
                    found |= Effect.FAILS
                for node in bodies[func]:
                    own = self.own(node)
                    if own is not Effect.NONE:  # joining flags takes longer than all else here
                        found |= own
            self._does.update(dict.fromkeys(component, found))

    def own(self, node: Expr) -> Effect:
        """What evaluating `node` does, its operands aside."""
        match node:
            case RefCreate() | RefRead() | RefWrite():
                return Effect.CELLS
            case MatchCast():
                return Effect.NONE if is_sure(node) else Effect.FAILS
            case Match():
                return Effect.NONE if node.complete else Effect.FAILS
            case Call(op=Op() as op):
                found = Effect.NONE if op.compute is not None or op in _SURE else Effect.FAILS
                return found | Effect.CELLS if op.stateful else found
            case Call(op=Constructor()):
                return Effect.NONE
            case Call():
                func = self._callees.of(node.op)
                return self._unknown if func is None else self._does.get(func, self._unknown)
            case _:
                return Effect.NONE


def _touches(node: Expr) -> bool:
    """Whether a node touches a cell by itself, or may as well do so."""
    if isinstance(node, Call):
        return isinstance(node.op, Op) and node.op.stateful
    return isinstance(node, RefCreate | RefRead | RefWrite)
