"""A-normal form: every computation is let-bound in the innermost scope that holds all its uses.

    add(f(x), f(x))      =>      let %a = f(%x); let %b = add(%a, %a); %b

Scopes are function bodies, the branches of an If and the clauses of a Match, so a value used in one branch only is
computed in that branch only. Operands are atoms: variables, constants, operators, and tuples of atoms (never bound
themselves, nor are primitive functions, whose bodies are left as they are).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from weakref import WeakSet

from legato.base.dataclass import dataclass
from legato.ir.atoms import is_atom, is_operand, is_primitive
from legato.ir.clauses import Clause
from legato.ir.expr import Dataflow, Expr, Function, If, Let, Match, Tuple, TupleGetItem, Var
from legato.ir.let import Binding, chain, lets
from legato.ir.module import Module
from legato.ir.scope import Scope
from legato.transform.pass_ import FunctionPass
from legato.transform.place_shared import PlaceShared

__all__ = ["ToANormal"]


@dataclass(frozen=True, slots=True)
class ToANormal(FunctionPass):
    """Module → A-normal form."""

    name = "to-a-normal"

    def prepared(self, mod: Module) -> Module:
        """Nodes with effects have one place, as all nodes have where all of the module is in A-normal form."""
        return mod if all(_is_normal(func) for _, func in mod.graph_functions()) else PlaceShared()(mod)

    def function(self, func: Function, mod: Module) -> Function:
        return func if _is_normal(func) else replace(func, body=_Normalizer(func.body).run())


_NORMAL: Final[WeakSet[Function]] = WeakSet()  # looked at once: functions never change


def _is_normal(func: Function) -> bool:
    """True if the body of `func`, and the blocks inside it, are in A-normal form."""
    if func not in _NORMAL and _has_normal_blocks(func.body):
        _NORMAL.add(func)
    return func in _NORMAL


def _has_normal_blocks(body: Expr) -> bool:
    blocks, seen = [body], set()
    while blocks:
        bindings, result = chain(blocks.pop())
        if not is_operand(result):
            return False
        for _, value in bindings:
            uses = list(_uses(value))
            if is_operand(value) or isinstance(value, Let | Dataflow) or id(value) in seen:
                return False
            if isinstance(value, TupleGetItem) and isinstance(value.value, Tuple):
                return False
            if not all(is_operand(child) for child, slot in uses if not slot):
                return False
            seen.add(id(value))
            blocks += (child for child, slot in uses if slot)
    return True


def _uses(node: Expr) -> Iterator[tuple[Expr, int]]:
    """(child, slot): slot 0 is the node's own scope, slot n > 0 its n-th inner scope."""
    match node:
        case Function() if is_primitive(node):
            return
        case Function():
            yield node.body, 1
        case If():
            yield from ((node.cond, 0), (node.then, 1), (node.orelse, 2))
        case Match():
            yield node.data, 0
            yield from ((c.body, n) for n, c in enumerate(node.clauses, 1))
        case Let():
            yield from ((node.value, 0), (node.body, 0))
        case Dataflow():
            yield from ((value, 0) for _, value in node.bindings)
            yield from ((out, 0) for out in node.outputs)
        case _:
            yield from ((child, 0) for child in node.children())


class _Normalizer:
    def __init__(self, root: Expr) -> None:
        self.root = root
        self.scope_of: dict[int, Scope] = {}
        self.inner: dict[tuple[int, int], Scope] = {}
        self.bindings: dict[Scope, list[Binding]] = {}
        self.atom: dict[int, Expr] = {}  # by identity of the original node
        self.alias: dict[Var, Expr] = {}  # let-bound variables that stand for another atom
        self.count = 0

    def run(self) -> Expr:
        top = Scope()
        order = self._order()
        self._assign_scopes(order, top)
        for node in order:
            self._emit(node)
        return lets(self.bindings.get(top, ()), self._atom(self.root))

    def _order(self) -> list[Expr]:
        """Every node once; what is evaluated first comes first, a let's variable is bound between value and body."""
        order: list[Expr] = []
        seen: set[int] = set()
        stack: list[tuple[Expr, bool]] = [(self.root, False)]
        while stack:
            node, done = stack.pop()
            if done:
                order.append(node)
                continue
            if id(node) in seen:
                continue
            seen.add(id(node))
            stack.append((node, True))
            stack += [(child, False) for child, _ in reversed(list(_uses(node)))]
        return order

    def _assign_scopes(self, order: list[Expr], top: Scope) -> None:
        self.scope_of[id(self.root)] = top
        for node in reversed(order):
            own = self.scope_of[id(node)]
            for child, slot in _uses(node):
                scope = own
                if slot:
                    scope = self.inner.setdefault((id(node), slot), Scope(own))
                known = self.scope_of.get(id(child))
                self.scope_of[id(child)] = scope if known is None else known.common(scope)
        self._name_lets(order)

    def _name_lets(self, order: list[Expr]) -> None:
        """A let's variable names the value itself where nobody else names it and both live in one scope."""
        self.named: dict[int, Var] = {}
        for node in order:
            pairs = node.bindings if isinstance(node, Dataflow) else ()
            if isinstance(node, Let):
                pairs = ((node.var, node.value),)
            for var, value in pairs:
                if is_atom(value) or isinstance(value, Tuple) or id(value) in self.named:
                    self.alias[var] = value
                else:
                    self.named[id(value)] = var

    def _atom(self, node: Expr) -> Expr:
        found = self.atom.get(id(node), node)
        while isinstance(found, Var) and found in self.alias:
            found = self.alias[found]
            found = self.atom.get(id(found), found)
        return found

    def _emit(self, node: Expr) -> None:
        if is_atom(node):
            self._stand_for(node, node)
        elif isinstance(node, Let):
            self._stand_for(node, self._atom(node.body))
        else:
            self._bind(node, self._rebuilt(node))

    def _stand_for(self, node: Expr, value: Expr) -> None:
        """The operand `value` is what `node` gives, and what a variable bound to `node` stands for."""
        self.atom[id(node)] = value
        if id(node) in self.named:
            self.alias[self.named[id(node)]] = value

    def _bind(self, node: Expr, value: Expr) -> None:
        if isinstance(value, Tuple) or is_atom(value) or is_primitive(value):
            self._stand_for(node, value)
            return
        var = self.named.get(id(node))
        if var is None:
            self.count += 1
            var = Var(f"x{self.count}", ty=node.ty, span=node.span)
        self.atom[id(node)] = var
        self.bindings.setdefault(self.scope_of[id(node)], []).append((var, value))

    def _block(self, node: Expr, slot: int, result: Expr) -> Expr:
        return lets(self.bindings.get(self.inner[id(node), slot], ()), self._atom(result))

    def _rebuilt(self, node: Expr) -> Expr:
        match node:
            case Function():
                return node if is_primitive(node) else replace(node, body=self._block(node, 1, node.body))
            case If():
                then, orelse = self._block(node, 1, node.then), self._block(node, 2, node.orelse)
                return replace(node, cond=self._atom(node.cond), then=then, orelse=orelse)
            case Match():
                clauses = tuple(Clause(c.pattern, self._block(node, n, c.body)) for n, c in enumerate(node.clauses, 1))
                return replace(node, data=self._atom(node.data), clauses=clauses)
            case Dataflow():
                return Tuple(tuple(self._atom(out) for out in node.outputs), ty=node.ty, span=node.span)
            case TupleGetItem():
                value = self._atom(node.value)
                return value.fields[node.index] if isinstance(value, Tuple) else replace(node, value=value)
            case _:
                return node.with_children(tuple(self._atom(c) for c in node.children()))
