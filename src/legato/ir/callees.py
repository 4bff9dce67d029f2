"""The functions of a module, local ones too, and which of them a callee is known to be: one that it names, or that a
variable which it names is bound to."""

from __future__ import annotations

from collections.abc import Mapping

from legato.base.node import post_order
from legato.ir.expr import Dataflow, Expr, Function, GlobalVar, Let, Var
from legato.ir.module import GlobalFunc

__all__ = ["Callee", "Callees"]

Callee = GlobalFunc | GlobalVar  # a function; its name where there is no more of it than that


class Callees:
    """`bodies` has what each function evaluates, operands first, what is in functions inside it aside; a function comes
    before those inside it."""

    def __init__(self, functions: Mapping[GlobalVar, GlobalFunc]) -> None:
        self._functions = functions
        self._bound: dict[Var, Expr] = {}
        self.bodies: dict[Function, list[Expr]] = {}
        todo = [f for f in functions.values() if isinstance(f, Function)]
        while todo:
            func = todo.pop()
            if func not in self.bodies:
                self.bodies[func] = nodes = [*post_order([func.body], lambda n: not isinstance(n, Function))]
                todo += (n for n in nodes if isinstance(n, Function))
                self._bind(nodes)

    def _bind(self, nodes: list[Expr]) -> None:
        for node in nodes:
            if isinstance(node, Let):
                self._bound[node.var] = node.value
            elif isinstance(node, Dataflow):
                self._bound.update(node.bindings)

    def of(self, callee: Expr) -> Callee | None:
        """What `callee` is; None if that is not known."""
        seen: set[Var] = set()  # variables that are bound to each other are found out elsewhere
        while isinstance(callee, Var) and callee in self._bound and callee not in seen:
            seen.add(callee)
            callee = self._bound[callee]
        if isinstance(callee, GlobalVar):
            return self._functions.get(callee, callee)
        return callee if isinstance(callee, Function) else None
