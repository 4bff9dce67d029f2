"""Runs: the operators between two calls, branches or effects of a block, and which of their results leave them."""

from __future__ import annotations

from collections.abc import Iterable

from legato.ir.expr import Call, Expr, Function, If, Match, MatchCast, Tuple, TupleGetItem, Var
from legato.ir.let import chain
from legato.ir.op import Op
from legato.transform._gradient.nodes import is_data

__all__ = ["Escapes", "is_straight"]


def is_straight(var: Var, value: Expr) -> bool:
    """Whether a binding of A-normal form belongs to a run."""
    match value:
        case Call():
            return isinstance(value.op, Op)
        case MatchCast():
            return is_data(var.ty)
        case Tuple() | TupleGetItem():
            return True
        case _:
            return False


class Escapes:
    """The variables of a function in A-normal form that are used outside of the run that binds them."""

    def __init__(self, func: Function) -> None:
        self._found: set[Var] = set()
        self._home: dict[Var, int] = {}
        self._runs = 0
        todo = [func.body]
        while todo:
            todo += self._block(todo.pop())

    def __contains__(self, var: Var) -> bool:
        return var in self._found

    def _block(self, body: Expr) -> list[Expr]:
        """Notes what one block uses, and lists the blocks inside it."""
        bindings, result = chain(body)
        self._runs += 1
        inner: list[Expr] = []
        for var, value in bindings:
            if is_straight(var, value):
                self._home[var] = self._runs
                self._use(value.children(), self._runs)
                continue
            self._runs += 1
            blocks = _blocks(value)
            inner += blocks
            self._use((kid for kid in value.children() if not any(kid is block for block in blocks)), None)
        self._use([result], None)
        return inner

    def _use(self, operands: Iterable[Expr], here: int | None) -> None:
        todo = list(operands)
        while todo:
            top = todo.pop()
            if isinstance(top, Var) and (here is None or self._home.get(top, here) != here):
                self._found.add(top)
            elif isinstance(top, Tuple):
                todo += top.fields


def _blocks(value: Expr) -> list[Expr]:
    match value:
        case Function():
            return [value.body]
        case If():
            return [value.then, value.orelse]
        case Match():
            return [clause.body for clause in value.clauses]
        case _:
            return []
