"""Nodes with effects that branches, clauses or functions share become local functions, called where they are needed.

    %0 = @search(%x);                      let %shared = fn () { @search(%x) };
    (if (%a) { %0 } else { 1 },      =>    (if (%a) { %shared() } else { 1 },
     if (%b) { %0 } else { 2 })             if (%b) { %shared() } else { 2 })

What touches cells is computed once, by whichever place is come to first, and kept in a cell:

    match (ref_read(%kept)) { Done(%v) => %v, Pending => let %v = %shared(); ref_write(%kept, Done(%v)); %v }

A function computes the nodes of its body itself, each time it is called: nodes that it shares with what is around it
are copied. Nodes without effects stay as they are, and so do those that one place computes for all (`_sharing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.base.node import transform
from legato.ir._dims import free_dims
from legato.ir.clauses import Clause, PatternConstructor, PatternVar
from legato.ir.effects import Effect, Effects, brought_dims
from legato.ir.expr import (
    Call,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    Var,
)
from legato.ir.let import Binding, lets
from legato.ir.module import GlobalFunc, Module
from legato.ir.scope import binders, operands, post_order
from legato.ir.types import UNIT, FuncType, GlobalTypeVar, RefType, Type, TypeCall, TypeData, TypeVar
from legato.transform._closures import Names
from legato.transform._copy import Copy
from legato.transform._external import is_own
from legato.transform._sharing import SPLIT, Place, Sharing, Use, common
from legato.transform._values import with_operands
from legato.transform.pass_ import Pass

__all__ = ["PlaceShared"]

MAX_COPIES: Final = 100_000  # nodes that are copied into functions


@dataclass(frozen=True, slots=True)
class PlaceShared(Pass):
    """Module → module in which every node with effects is computed in one place."""

    name = "place-shared"

    def __call__(self, mod: Module) -> Module:
        once = _Once(mod)
        new: dict[GlobalVar, GlobalFunc] = {
            gv: _placed(f, mod, once) if is_own(f) else f for gv, f in mod.functions.items()
        }
        made = mod.with_functions(new)
        return replace(made, types={**made.types, once.data.header: once.data}) if once.is_used else made


class _Once:
    """The data type of what is computed once, which is part of the module if it is used."""

    def __init__(self, mod: Module) -> None:
        names = Names(mod)
        header, held = GlobalTypeVar(names.new("Once")), TypeVar("A")
        self.pending = Constructor(names.constructor("Pending"), (), header, 0)
        self.done = Constructor(names.constructor("Done"), (held,), header, 1)
        self.data = TypeData(header, (held,), (self.pending, self.done))
        self.is_used = False

    def cell(self, node: Expr) -> Binding:
        """A cell for the value of `node`."""
        assert node.ty is not None
        self.is_used = True
        ty = TypeCall(self.data.header, (node.ty,))
        empty = Call(self.pending, (), None, (node.ty,), ty=ty, span=node.span)
        return Var("kept", ty=RefType(ty), span=node.span), RefCreate(empty, ty=RefType(ty), span=node.span)

    def value(self, cell: Var, shared: Call) -> Expr:
        """What the cell holds; if it holds nothing yet, what `shared` gives, from then on."""
        ty, span = shared.ty, shared.span
        assert isinstance(cell.ty, RefType)
        assert ty is not None
        old, new = Var("v", ty=ty, span=span), Var("v", ty=ty, span=span)
        made = Call(self.done, (new,), None, (ty,), ty=cell.ty.value, span=span)
        write = RefWrite(cell, made, ty=UNIT, span=span)
        compute = lets([(new, shared), (Var("_", ty=UNIT, span=span), write)], new)
        clauses = (
            Clause(PatternConstructor(self.done, (PatternVar(old),)), old),
            Clause(PatternConstructor(self.pending, ()), compute),
        )
        return Match(RefRead(cell, ty=cell.ty.value, span=span), clauses, True, ty=ty, span=span)


def _placed(func: Function, mod: Module, once: _Once) -> Function:
    """`func` with one place for every node with effects; the same object where that is so."""
    effects = Effects(func, mod)
    if not effects.possible or not Sharing(func, effects).split:
        return func
    func, copies = replace(func, body=transform(func.body, _without_dataflow)), 0
    while True:
        effects = Effects(func, mod)
        sharing = Sharing(func, effects)
        copier = _Copier(sharing, effects)
        if not copier.functions:
            return _Placer(sharing, effects, once).run(func)
        func, copies = copier.run(func), copies + copier.count
        if copies > MAX_COPIES:
            hint = "bind them by a let where they are to be computed"
            raise UnsupportedError("too many functions share nodes that have effects", span=func.span, hint=hint)


def _without_dataflow(node: Expr) -> Expr | None:
    if not isinstance(node, Dataflow):
        return None
    return lets(node.bindings, Tuple(node.outputs, ty=node.ty, span=node.span))


class _Copier:
    """Copies nodes for functions that share them with what is around; `functions` are the outermost ones that do."""

    def __init__(self, sharing: Sharing, effects: Effects) -> None:
        self._sharing = sharing
        self._effects = effects
        self._shared: dict[int, Expr] = {}
        self.functions: dict[int, Place] = {}
        self.count = 0
        for key, scope in sharing.scope.items():
            for use in sharing.uses[key]:
                if use.scope.function is not scope.function:
                    self._shared[key] = sharing.split[key]
                    inner = _below(use.scope, scope)
                    self.functions[id(inner.opener)] = inner

    def run(self, func: Function) -> Function:
        """`func` with copies."""
        new: dict[int, Expr] = {}
        for node in self._sharing.order:
            made = with_operands(node, [new[id(kid)] for kid in operands(node)])
            if id(node) in self.functions and isinstance(made, Function):
                made = replace(made, body=self._own(made.body))
            new[id(node)] = made
        made = new[id(func)]
        assert isinstance(made, Function)
        return made

    def _own(self, body: Expr) -> Expr:
        """The body of a function with nodes of its own in place of those that it shares."""
        order = list(post_order(body))
        inside = self._inside([node for node in order if id(node) in self._shared])
        copy, new = Copy(), dict[int, Expr]()
        for node in order:
            for var in (v for scope in binders(node) if id(node) in inside for v in scope):
                copy.bind(var)
        for node in order:
            kids = [new[id(kid)] for kid in operands(node)]
            same = all(a is b for a, b in zip(kids, operands(node), strict=True))
            if isinstance(node, Var):
                new[id(node)] = copy.vars.get(node, node)
            elif id(node) in inside and (not same or self._effects.inside(node)):
                self.count += 1
                new[id(node)] = copy.node(node, tuple(kids))
            else:
                new[id(node)] = with_operands(node, kids)
        return new[id(body)]

    def _inside(self, shared: Sequence[Expr]) -> set[int]:
        """The nodes that `shared` ones compute: what they need, but for what is computed before them."""
        found: set[int] = set()
        for root in shared:
            scope, todo = self._sharing.inside[id(root)], [root]
            while todo:
                node = todo.pop()
                if id(node) not in found:
                    found.add(id(node))
                    uses = self._sharing.uses
                    todo += (k for k in operands(node) if id(k) not in uses or scope.encloses(common(uses[id(k)])))
        return found


def _below(scope: Place, outer: Place) -> Place:
    """The outermost function around `scope` that is inside that of `outer`."""
    found = scope.function
    while isinstance(found.parent, Place) and found.parent.function is not outer.function:
        found = found.parent.function
    return found


class _Placer:
    """Local functions for the nodes that several places of one function compute."""

    def __init__(self, sharing: Sharing, effects: Effects, once: _Once) -> None:
        self._sharing = sharing
        self._effects = effects
        self._once = once
        self._bound: dict[tuple[int, int], list[Binding]] = {}  # before an operand
        self._new: dict[int, Expr] = {}
        self._calls: dict[tuple[int, int], Expr] = {}  # of operands that are split nodes

    def run(self, func: Function) -> Function:
        """`func`, in which nothing is split."""
        for node in self._sharing.order:
            kids = [self._operand(node, n, kid) for n, kid in enumerate(operands(node))]
            self._new[id(node)] = made = with_operands(node, kids)
            if id(node) in self._sharing.split:
                self._share(node, lets(self._bound.get((id(node), SPLIT), ()), made))
        result = self._new[id(func)]
        assert isinstance(result, Function)
        return result

    def _operand(self, node: Expr, n: int, kid: Expr) -> Expr:
        place = id(node), n
        return lets(self._bound.get(place, ()), self._calls.get(place, self._new[id(kid)]))

    def _share(self, node: Expr, made: Expr) -> None:
        """Binds a function that computes `node`, and calls it at its uses."""
        assert node.ty is not None
        scope, uses = self._sharing.scope[id(node)], self._sharing.uses[id(node)]
        bound = self._bound.setdefault((id(scope.opener), scope.index), [])
        ty = FuncType((), node.ty)
        shared = Var("shared", ty=ty, span=node.span)
        bound.append((shared, Function((), made, node.ty, ty=ty, span=node.span)))
        if self._effects.of(node) & Effect.CELLS:
            self._require_known_dims(node, node.ty)
            cell, empty = self._once.cell(node)
            bound.append((cell, empty))
            for use in uses:
                self._use([use], self._once.value(cell, _called(shared, node)))
        else:
            for group in self._sharing.places(node, uses):
                self._use(group, _called(shared, node))

    def _use(self, uses: Sequence[Use], value: Expr) -> None:
        for use in uses:
            self._calls[id(use.parent), use.index] = value

    def _require_known_dims(self, node: Expr, ty: Type) -> None:
        """UnsupportedError where the cell's type would name dims that evaluating the node brings."""
        own = {d for part in post_order(node) for d in brought_dims(part)}
        if not own.isdisjoint(free_dims(ty)):
            raise UnsupportedError(
                "a node with effects whose shape only the running program tells is shared by branches",
                span=node.span,
                hint="bind it by a let where it is to be computed",
            )


def _called(shared: Var, node: Expr) -> Call:
    return Call(shared, (), None, (), ty=node.ty, span=node.span)
