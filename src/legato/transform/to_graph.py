"""Graph form: let-bound values are written where they are used, so that patterns span bindings.

    let %a = f(%x); add(%a, %a)      =>      add(f(%x), f(%x)) with one shared node

A value that is used nowhere disappears, unless it has effects (`_effects`). Every node that has is bound by a let where
it is computed, or comes last in a block. A let that binds a function stays (it may be recursive), and so does one whose
value gives dims their values that attributes or types name: these must be known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.node import post_order, rebuild
from legato.ir._dims import free_dims
from legato.ir.attrs import dims_of
from legato.ir.contents import body_nodes
from legato.ir.effects import Effects
from legato.ir.expr import Call, Dataflow, Expr, Function, If, Let, Match, MatchCast, Shape, Tuple, Var
from legato.ir.let import lets
from legato.ir.module import Module
from legato.ir.scope import operands
from legato.ir.scope import post_order as in_order
from legato.ir.types import Type
from legato.transform._external import is_own
from legato.transform.pass_ import FunctionPass
from legato.transform.place_shared import PlaceShared
from legato.transform.to_a_normal import ToANormal

__all__ = ["ToGraph", "named_dims"]


@dataclass(frozen=True, slots=True)
class ToGraph(FunctionPass):
    """Module → graph form."""

    name = "to-graph"

    def prepared(self, mod: Module) -> Module:
        """Nodes with effects have one place, and come in order."""
        mod = PlaceShared()(mod)
        normal = ToANormal()
        return mod.with_functions(
            {gv: f if not is_own(f) or _in_order(f, Effects(f, mod)) else normal.function(f, mod)
             for gv, f in mod.functions.items()}
        )  # fmt: skip

    def function(self, func: Function, mod: Module) -> Function:
        if not any(isinstance(n, Let | Dataflow) for n in body_nodes(func)):
            return func
        body = _Inliner(func, list(post_order([func.body])), Effects(func, mod)).run()
        return func if body is func.body else replace(func, body=body)


def _in_order(func: Function, effects: Effects) -> bool:
    """True if every node with effects is the value of a let, or comes last in a block: nothing can overtake it."""
    for node in in_order(func) if effects.possible else ():
        free: tuple[Expr, ...] = ()
        match node:
            case Let() | Function():
                continue
            case If() | Match():
                free = operands(node)[:1]
            case _:
                free = operands(node)
        if any(map(effects.inside, free)):
            return False
    return True


class _Inliner:
    def __init__(self, func: Function, nodes: Sequence[Expr], effects: Effects) -> None:
        self._root = func.body
        self._effects = effects
        bound = {d for p in func.params if p.ty is not None for d in free_dims(p.ty)}
        bound.update(d for n in nodes if isinstance(n, Function) for d in n.type_params if isinstance(d, DimVar))
        self._named = {d for n in nodes for d in named_dims(n)} - bound
        self._owner = {var: value for n in nodes for var, value in _bindings(n) if not self._stays(value)}
        self._new: dict[int, Expr] = {}

    def run(self) -> Expr:
        """The function's body in graph form."""
        new, stack = self._new, [self._root]
        while stack:
            node = stack[-1]
            if id(node) in new:
                stack.pop()
                continue
            waiting = self._owner.get(node) if isinstance(node, Var) else None
            needed = [waiting] if waiting is not None else self._parts(node)
            pending = [c for c in needed if id(c) not in new]
            if pending:
                stack += reversed(pending)
                continue
            stack.pop()
            new[id(node)] = new[id(waiting)] if waiting is not None else self._rebuilt(node)
        return new[id(self._root)]

    def _stays(self, value: Expr) -> bool:
        """True for what is let-bound in graph form, too."""
        if isinstance(value, Function) or self._effects.inside(value):
            return True
        return bool(self._named) and value.ty is not None and not self._named.isdisjoint(free_dims(value.ty))

    def _parts(self, node: Expr) -> Sequence[Expr]:
        """The children that remain in graph form."""
        if isinstance(node, Let) and not self._stays(node.value):
            return (node.body,)
        if isinstance(node, Dataflow):
            return (*(e for pair in node.bindings if self._stays(pair[1]) for e in pair), *node.outputs)
        return node.children()

    def _rebuilt(self, node: Expr) -> Expr:
        new = self._new
        if isinstance(node, Let) and not self._stays(node.value):
            return new[id(node.body)]
        if isinstance(node, Dataflow):
            result = Tuple(tuple(new[id(o)] for o in node.outputs), ty=node.ty, span=node.span)
            return lets([(var, new[id(value)]) for var, value in node.bindings if self._stays(value)], result)
        return rebuild(node, new)


def _bindings(node: Expr) -> Iterable[tuple[Var, Expr]]:
    if isinstance(node, Let):
        return ((node.var, node.value),)
    return node.bindings if isinstance(node, Dataflow) else ()


def named_dims(node: Expr) -> Iterator[DimVar]:
    """The dims whose values are needed to evaluate `node`, operands aside: in attributes, type arguments, shapes, casts
    and parameters."""
    match node:
        case Call():
            yield from _dims_in(node.type_args)
            for f in fields(node.attrs) if node.attrs is not None else ():
                yield from _dims_in(getattr(node.attrs, f.name))
        case Shape():
            yield from variables(*node.dims)
        case MatchCast():
            yield from free_dims(node.target)
        case Function():
            yield from (d for p in node.params if p.ty is not None for d in free_dims(p.ty))


def _dims_in(value: Any) -> Iterator[DimVar]:
    if isinstance(value, Type):
        yield from free_dims(value)
    elif isinstance(value, tuple):
        for v in value:
            yield from _dims_in(v)
    else:
        yield from variables(*dims_of(value))
