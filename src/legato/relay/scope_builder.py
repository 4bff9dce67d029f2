"""ScopeBuilder: programs of lets and branches, written in order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from legato.base.errors import CompileError
from legato.ir import expr as ir
from legato.ir.expr import Expr
from legato.ir.let import lets
from legato.ir.types import Type
from legato.relay.expr import as_expr

__all__ = ["ScopeBuilder"]


class _Scope:
    def __init__(self) -> None:
        self.bindings: list[tuple[ir.Var, Expr]] = []
        self.result: Expr | None = None
        self.branches: list[Expr] = []  # the condition of an open if, then its first branch


class ScopeBuilder:
    """Builds an expression by statements:

    sb = ScopeBuilder()
    with sb.if_scope(cond):
        y = sb.let("y", relay.add(x, x))
        sb.ret(y)
    with sb.else_scope():
        sb.ret(x)
    body = sb.get()
    """

    def __init__(self) -> None:
        self._scopes = [_Scope()]

    def let(self, var: str | ir.Var, value: Any) -> ir.Var:
        """Binds `value` to a variable (made for a name) in the scope that is open, and returns the variable."""
        bound = as_expr(value)
        made = ir.Var(var, ty=bound.ty) if isinstance(var, str) else var
        self._open().bindings.append((made, bound))
        return made

    def ret(self, value: Any) -> None:
        """The result of the scope that is open."""
        scope = self._open()
        if scope.result is not None:
            raise CompileError("the scope has a result already", hint="each scope ends with one ret")
        scope.result = as_expr(value)

    def get(self) -> Expr:
        """The expression: the lets around the result. CompileError where there is no result."""
        return self._closed(self._open())

    def type_of(self, expr: Expr) -> Type | None:
        """The type of an expression, if it is known."""
        return expr.ty

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """What is built inside is the first branch of an if; `else_scope` has to follow."""
        outer = self._open()
        if outer.branches:
            raise CompileError("an if_scope has no else_scope", hint="each if has both branches")
        yield from self._branch(outer, [as_expr(cond)])

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """What is built inside is the second branch; the if is the result of the scope around it."""
        outer = self._open()
        if len(outer.branches) != 2:
            raise CompileError("an else_scope follows no if_scope", hint="write it directly behind one")
        yield from self._branch(outer, [])
        cond, then, orelse = outer.branches
        outer.branches = []
        self.ret(ir.If(cond, then, orelse))

    def _branch(self, outer: _Scope, before: list[Expr]) -> Iterator[None]:
        self._scopes.append(_Scope())
        try:
            yield
            outer.branches += [*before, self._closed(self._scopes[-1])]
        finally:
            self._scopes.pop()

    def _open(self) -> _Scope:
        return self._scopes[-1]

    def _closed(self, scope: _Scope) -> Expr:
        if scope.branches:
            raise CompileError("an if_scope has no else_scope", hint="each if has both branches")
        if scope.result is None:
            raise CompileError("the scope has no result", hint="end it with ret")
        return lets(scope.bindings, scope.result)
