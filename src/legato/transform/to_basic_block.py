"""Basic-block normal form: values that several blocks use are bound to variables (see `ir.blocks`).

    %0 = add(%x, 1f);                         let %x1 = add(%x, 1f);
    if (%c) { exp(%0) } else { %0 }     =>    if (%c) { exp(%x1) } else { %x1 }

The rest stays in graph form. A value is bound in the innermost block that holds its uses, at the last point that all of
them are behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.ir._dims import free_dims
from legato.ir.atoms import is_primitive
from legato.ir.blocks import Shared, shared_by_blocks
from legato.ir.expr import Dataflow, Expr, Function, Var
from legato.ir.let import Binding, lets
from legato.ir.module import Module
from legato.ir.scope import operands
from legato.ir.scope import post_order as in_order
from legato.transform._values import with_operands
from legato.transform.pass_ import FunctionPass
from legato.transform.place_shared import PlaceShared
from legato.transform.to_a_normal import ToANormal
from legato.transform.to_graph import named_dims

__all__ = ["ToBasicBlock"]


@dataclass(frozen=True, slots=True)
class ToBasicBlock(FunctionPass):
    """Module → basic-block normal form."""

    name = "to-basic-block"

    def prepared(self, mod: Module) -> Module:
        """What several blocks use has no effects: it may be computed earlier."""
        return PlaceShared()(mod)

    def function(self, func: Function, mod: Module) -> Function:
        shared = shared_by_blocks(func.body)
        if not shared.values:
            return func
        if _names_late_dims(func, shared.values):  # these come with what is computed before, in order
            return ToANormal().function(func, mod)
        return replace(func, body=_bound(func.body, shared))


def _names_late_dims(func: Function, values: Sequence[Expr]) -> bool:
    """True if evaluating one of the values needs dims that no parameter of a function tells."""
    functions = [node for node in in_order(func) if isinstance(node, Function)]
    told = {d for f in functions for p in f.params if p.ty is not None for d in free_dims(p.ty)}
    return any(not told.issuperset(named_dims(node)) for node in post_order(values))


def _bound(root: Expr, shared: Shared) -> Expr:
    variables = {id(v): Var(f"x{n}", ty=v.ty, span=v.span) for n, v in enumerate(shared.values, 1)}
    values: dict[tuple[int, int], list[Expr]] = {}
    for value in shared.values:
        point = shared.at[id(value)]
        values.setdefault((id(point.opener), point.index), []).append(value)
    new: dict[int, Expr] = {}

    def bindings(opener: Expr, index: int) -> list[Binding]:
        return [(variables[id(v)], new[id(v)]) for v in values.get((id(opener), index), ())]

    for node in shared.order:
        if id(node) not in shared.at or is_primitive(node):
            new[id(node)] = node
            continue
        kids = [variables.get(id(kid), new[id(kid)]) for kid in operands(node)]
        if isinstance(node, Dataflow):
            new[id(node)] = _block(with_operands(node, kids), [bindings(node, n) for n in range(len(kids) + 1)])
        else:
            bound = [lets(bindings(node, n), kid) if (id(node), n) in values else kid for n, kid in enumerate(kids)]
            new[id(node)] = with_operands(node, bound)
    return lets(bindings(root, -1), variables.get(id(root), new[id(root)]))


def _block(block: Expr, before: Sequence[Sequence[Binding]]) -> Expr:
    """A dataflow block with more bindings before its own, and before its outputs."""
    assert isinstance(block, Dataflow)
    if not any(before):
        return block
    count = len(block.bindings)
    own = [b for n, binding in enumerate(block.bindings) for b in (*before[n], binding)]
    return replace(block, bindings=(*own, *before[count]))
