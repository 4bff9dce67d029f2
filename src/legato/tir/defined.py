"""Whether values are defined: nothing in them comes from memory that a kernel has allocated and not stored to.

For each buffer that a kernel allocates there is one more, of bool, that says of each element whether its value is
defined; so there is for the variables of Lets. A kernel may read what nothing has stored to, compute with it and drop
the result, as lanes behind the end of a row do; it must not keep it.
"""

from __future__ import annotations

from dataclasses import field

from legato.arith.expr import Binary, Expr, Op, Select, Var, const, land, lnot, lor, select
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.node import post_order
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load
from legato.tir.sealed import filled
from legato.tir.stmt import Alloc, Func, FuncKind, Let, Stmt, Store, block
from legato.tir.walk import bound_buffers, statements

__all__ = ["Definedness"]

_TRUE, _FALSE = const(True, dt.bool_), const(False, dt.bool_)


@dataclass(slots=True)
class Definedness:
    """What says whether the buffers that a kernel allocates, and its variables, are defined."""

    buffers: dict[Buffer, Buffer] = field(default_factory=dict)
    variables: dict[Var, Var] = field(default_factory=dict)

    @staticmethod
    def of(func: Func) -> Definedness:
        """For `func`; nothing is undefined in host functions."""
        found = Definedness()
        if func.kind is FuncKind.KERNEL:
            own = [b for b in bound_buffers(func) if b.scope is not Scope.GLOBAL]
            found.buffers.update((b, Buffer(f"{b.name}_defined", b.shape, dt.bool_, b.layout, b.scope)) for b in own)
            for s in statements(func) if own else ():
                if isinstance(s, Let) and found.defined(s.value) is not _TRUE:
                    found.variables[s.var] = Var(f"{s.var.name}_defined", dt.bool_)
        return found

    def defined(self, e: Expr) -> Expr:
        """Whether `e` is defined, as a condition."""
        if not self.buffers:
            return _TRUE
        known: dict[Expr, Expr] = {}
        for node in post_order([e]):
            if isinstance(node, Var):
                known[node] = self.variables.get(node, _TRUE)
            elif isinstance(node, Select):
                sides = select(node.cond, known[node.a], known[node.b])
                known[node] = sides if known[node.cond] is _TRUE else select(known[node.cond], sides, _FALSE)
            elif isinstance(node, Binary) and node.op in (Op.AND, Op.OR):
                known[node] = _either(node, known[node.a], known[node.b])
            else:
                found: Expr = _TRUE
                for child in node.children():
                    found = land(found, known[child])
                if isinstance(node, Load) and node.buffer in self.buffers:
                    found = land(found, Load(self.buffers[node.buffer], node.indices))
                known[node] = found
        return known[e]

    def step(self, s: Stmt) -> Stmt:
        """`s` with the statements that keep what is said up to date."""
        match s:
            case Alloc(buffer, body) if buffer in self.buffers:
                says = self.buffers[buffer]
                return Alloc(buffer, Alloc(says, block(filled(says, _FALSE), body)))
            case Store(buffer, indices, value) if buffer in self.buffers:
                return block(s, Store(self.buffers[buffer], indices, self.defined(value)))
            case Let(var, value, body) if var in self.variables:
                return Let(var, value, Let(self.variables[var], self.defined(value), body))
            case _:
                return s


def _either(e: Binary, a: Expr, b: Expr) -> Expr:
    """Whether a conjunction or disjunction is defined, whose operands are where `a` and `b`: one of them may decide."""
    if a is _TRUE and b is _TRUE:
        return _TRUE
    decides = [land(known, side if e.op is Op.OR else lnot(side)) for side, known in ((e.a, a), (e.b, b))]
    return lor(land(a, b), lor(*decides))
