"""Calls of operators that are made of others become these.

dyn.tile(%x, %n)                                of type Tensor[(d0, d1), float32]
    =>
let %reps = match_cast(tensor_to_shape(%n), Shape[(reps0, reps1)]);
match_cast(tile(%x, reps=[reps0, reps1]), Tensor[(d0, d1), float32])
"""

from __future__ import annotations

from dataclasses import replace

from legato.base.dataclass import dataclass
from legato.base.node import post_order, transform
from legato.infer.builder import Builder
from legato.infer.infer import infer
from legato.ir.contents import called_operators
from legato.ir.effects import Effects
from legato.ir.expr import Call, Expr, Function, Let, MatchCast
from legato.ir.module import Module
from legato.ir.op import Op
from legato.transform.pass_ import FunctionPass

__all__ = ["ExpandCalls", "expanded"]


@dataclass(frozen=True, slots=True)
class ExpandCalls(FunctionPass):
    """Typed module → typed module without calls of operators that `expand`: these call none such.

    known:    only those of `dyn.X` whose numbers are all known become calls of X.
    ungraded: only those of operators that have no gradient, which are differentiated as what they become.
    """

    name = "expand-calls"
    known: bool = False
    ungraded: bool = False

    def function(self, func: Function, mod: Module) -> Function:
        if all(op.expand is None for op in called_operators(func)):
            return func
        effects = Effects(func, mod)
        step = _known if self.known else _ungraded if self.ungraded else expanded
        body = transform(func.body, lambda node: step(node, effects))
        return func if body is func.body else replace(func, body=body)

    def __call__(self, mod: Module) -> Module:
        """What the new calls demand of dims, their functions demand of these."""
        new = FunctionPass.__call__(self, mod)
        return mod if new is mod else infer(new)


def expanded(node: Expr, effects: Effects) -> Expr | None:
    """What a call of an operator that is made of others becomes; None for anything else.

    What it becomes may read an operand never, in a branch, or behind others: one that does more than to give a value,
    or may not give one, is computed where it was.
    """
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.expand is None or node.ty is None:
        return None
    expand, wanted, attrs = node.op.expand, node.ty, node.op.tail(node.attrs)
    b = Builder(span=node.span)

    def body() -> Expr:
        args = [b.let("operand", a) if effects.inside(a) else a for a in node.args]
        made = expand(b, *args, *attrs)
        return made if made.ty == wanted else b.match_cast(made, wanted)

    return b.body(body)


def _ungraded(node: Expr, effects: Effects) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.grad is not None:
        return None
    return expanded(node, effects)


def _known(node: Expr, effects: Effects) -> Expr | None:
    if not isinstance(node, Call) or not isinstance(node.op, Op) or not node.op.name.startswith("dyn."):
        return None
    made = expanded(node, effects)
    inside = set(map(id, node.args))
    new = post_order([] if made is None else [made], lambda e: id(e) not in inside)
    bound = (e for e in new if isinstance(e, Let | MatchCast) and id(e) not in inside)
    return None if any(isinstance(e, MatchCast) or id(e.value) not in inside for e in bound) else made
