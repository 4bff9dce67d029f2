"""Values of index arithmetic that hold from one statement to the next.

Unrolled statements ask for the same quotients and remainders hundreds of times. The builder numbers instructions, so
nothing is emitted twice; here nothing is derived twice either.
"""

from __future__ import annotations

from legato.arith.expr import Binary, Const, Expr, Select, Var
from legato.base.node import post_order
from legato.codegen.builder import Builder, Scope
from legato.codegen.value import Value

__all__ = ["Known"]


class Known:
    """Values of expressions of variables and literals, each until one of its variables gets another value, or the scope
    ends that the value is defined in."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._values: dict[Expr, tuple[Value, Scope]] = {}
        self._users: dict[Var, list[Expr]] = {}
        self._variables: dict[Expr, frozenset[Var] | None] = {}  # None: it is more than arithmetic

    def get(self, e: Expr) -> Value | None:
        """The value of `e`, if it is known here."""
        entry = self._values.get(e)
        if entry is None:
            return None
        value, scope = entry
        depth, scopes = value.level >> 1, self._builder.scopes
        return value if depth < len(scopes) and scopes[depth] is scope else None

    def keep(self, e: Expr, value: Value) -> None:
        """Takes note of the value of `e`, where that does not depend on memory."""
        found = self._variables_of(e)
        if found is None:
            return
        if e not in self._values:
            for v in found:
                self._users.setdefault(v, []).append(e)
        self._values[e] = value, self._builder.scopes[value.level >> 1]

    def forget(self, var: Var) -> None:
        """`var` has another value."""
        for e in self._users.pop(var, ()):
            self._values.pop(e, None)

    def _variables_of(self, e: Expr) -> frozenset[Var] | None:
        known = self._variables
        if e not in known:
            for node in post_order([e], lambda n: n not in known):
                if node not in known:
                    known[node] = self._of_node(node)
        return known[e]

    def _of_node(self, e: Expr) -> frozenset[Var] | None:
        if isinstance(e, Var):
            return frozenset((e,))
        if not isinstance(e, Binary | Select | Const):
            return None
        found: frozenset[Var] = frozenset()
        for child in e.children():
            variables = self._variables[child]
            if variables is None:
                return None
            found |= variables
        return found
