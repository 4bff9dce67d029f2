"""Let-bound values that nothing uses disappear.

    let %a = exp(%x);                           let %r = ref(%x);
    let %r = ref(%x);                =>         ref_read(%r)
    let %f = fn () { %f() };
    ref_read(%r)

What has effects stays (`_effects`), and so does a value whose type gives dims their values that attributes or types
name. A function that only calls itself is not used.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace

from legato.arith.expr import Var as DimVar
from legato.base.dataclass import dataclass
from legato.ir._dims import free_dims
from legato.ir.effects import Effects
from legato.ir.expr import Dataflow, Expr, Function, Let, Var
from legato.ir.let import Binding
from legato.ir.module import Module
from legato.ir.scope import Scope, operands, place, post_order
from legato.transform._values import with_operands
from legato.transform.pass_ import FunctionPass
from legato.transform.to_graph import named_dims

__all__ = ["EliminateDead"]


@dataclass(frozen=True, slots=True)
class EliminateDead(FunctionPass):
    """Module → module without unused bindings.

    once: a value that is used in one place, of the function that binds it, is written there; so is a function that does
    not call itself. ignore_effects: what has effects counts as if it had none, so that meanings may change.
    """

    name = "eliminate-dead"
    once: bool = False
    ignore_effects: bool = False

    def function(self, func: Function, mod: Module) -> Function:
        while (body := _Live(func, mod, self.ignore_effects).body(self.once)) is not func.body:
            func = replace(func, body=body)
            if not self.once:  # what moves may leave others with one use
                break
        return func


class _Live:
    """What evaluating a function needs: the bindings that are kept, and who uses each variable."""

    def __init__(self, func: Function, mod: Module, ignore_effects: bool) -> None:
        self._func = func
        self._order = list(post_order(func))
        self._effects = None if ignore_effects else Effects(func, mod)
        self._value = {var: value for node in self._order for var, value in _bindings(node)}
        self._giving = self._dims()
        self._needed: set[DimVar] = set()
        self._users: dict[Var, list[Expr]] = {}
        self._kept: set[Var] = set()
        self._mark()

    def _dims(self) -> dict[DimVar, list[Var]]:
        """The bindings whose values have a dim in their types, by dim, for those that no parameter tells."""
        told: set[DimVar] = set()
        for node in self._order:
            if isinstance(node, Function):
                told.update(d for d in node.type_params if isinstance(d, DimVar))
                told.update(d for p in node.params if p.ty is not None for d in free_dims(p.ty))
        found: dict[DimVar, list[Var]] = {}
        for var, value in self._value.items():
            for dim in () if value.ty is None else set(free_dims(value.ty)) - told:
                found.setdefault(dim, []).append(var)
        return found

    def _mark(self) -> None:
        live: set[int] = set()
        stack: list[Expr] = [self._func]
        while stack:
            node = stack.pop()
            if id(node) in live:
                continue
            live.add(id(node))
            if isinstance(node, Var):
                stack += self._keep((node,))
                continue
            for kid in operands(node):
                if isinstance(kid, Var):
                    self._users.setdefault(kid, []).append(node)
            stack += self._evaluated(node)
            for dim in named_dims(node):
                self._needed.add(dim)
                stack += self._keep(self._giving.get(dim, ()))

    def _keep(self, variables: Iterable[Var]) -> list[Expr]:
        """The values of bindings that have not been kept so far."""
        new = [var for var in variables if var in self._value and var not in self._kept]
        self._kept.update(new)
        return [self._value[var] for var in new]

    def _evaluated(self, node: Expr) -> list[Expr]:
        """The operands of `node` that are evaluated with it; the values of bindings where they have effects."""
        match node:
            case Let(body=body):
                rest = [body]
            case Dataflow(outputs=outputs):
                rest = list(outputs)
            case _:
                return list(operands(node))
        return self._keep(var for var, value in _bindings(node) if self._has_effects(value)) + rest

    def _has_effects(self, value: Expr) -> bool:
        return self._effects is not None and self._effects.inside(value)

    def body(self, once: bool) -> Expr:
        """The body of the function without the bindings that are not needed."""
        moved = self._moved() if once else set[Var]()
        gone = (self._value.keys() - self._kept) | moved
        new: dict[int, Expr] = {}
        for node in self._order:  # the value of a let comes before its body
            if isinstance(node, Var):
                new[id(node)] = new[id(self._value[node])] if node in moved else node
            elif isinstance(node, Let) and node.var in gone:
                new[id(node)] = new[id(node.body)]
            else:
                made = with_operands(node, [new[id(kid)] for kid in operands(node)])
                new[id(node)] = _without(made, gone) if isinstance(made, Dataflow) else made
        return new[id(self._func.body)]

    def _moved(self) -> set[Var]:
        """The variables that are used once, where the function that binds them computes."""
        found = set()
        function = _functions(self._func)
        for node in self._order:
            for var, value in _bindings(node):
                users = self._users.get(var, [])
                if len(users) == 1 and function[id(users[0])] is function[id(node)] and not self._stays(value):
                    found.add(var)
        return found

    def _stays(self, value: Expr) -> bool:
        """True for a value that is evaluated where it is bound."""
        return self._has_effects(value) or (
            bool(self._needed) and value.ty is not None and not self._needed.isdisjoint(free_dims(value.ty))
        )


def _functions(func: Function) -> dict[int, Scope]:
    """The scope of the function, in `func`, that evaluates the operands of each node, by id."""
    placement = place(func)
    of: dict[Scope, Scope] = {placement.root: placement.root}
    found: dict[int, Scope] = {}
    for node in reversed(placement.order):
        own = of[placement.of[id(node)]]
        opened = placement.inner.get(id(node), ())
        of.update((scope, scope if isinstance(node, Function) else own) for scope in opened)
        found[id(node)] = opened[0] if isinstance(node, Function) else own
    return found


def _bindings(node: Expr) -> tuple[Binding, ...]:
    if isinstance(node, Let):
        return ((node.var, node.value),)
    return node.bindings if isinstance(node, Dataflow) else ()


def _without(block: Dataflow, gone: Container[Var]) -> Dataflow:
    kept = tuple(binding for binding in block.bindings if binding[0] not in gone)
    return block if len(kept) == len(block.bindings) else replace(block, bindings=kept)
