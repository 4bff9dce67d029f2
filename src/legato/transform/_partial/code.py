"""The program that is written: blocks of bindings, some of which are kept only if something names them.

    entry = Bind(var, expr)                                   computed where it stands
          | Branch(var, node, atom, patterns, blocks)         an if or a match, whose branches are blocks
          | Later(value)                                      a closure, data, or a cell: written if its variable is
          | Write(cell, value)                                written if the cell's variable is

A cell that nothing names outside of its own writes has no readers, so its writes are not seen. `Writer` finds out what
is named, and makes expressions of it. A closure's body is made when its variable is first named.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import field
from typing import Any

from legato.base.dataclass import dataclass
from legato.ir.clauses import Clause, Pattern
from legato.ir.expr import Call, Expr, Function, If, Match, RefCreate, RefWrite, Var
from legato.ir.let import lets
from legato.ir.types import UNIT, RefType, Type, TypeCall
from legato.transform._partial.values import Cell, Closure, Made, Value

__all__ = ["Bind", "Block", "Branch", "Code", "Later", "Steps", "Write", "Writer", "run"]

Steps = Generator[Any, Any, Any]  # work that yields work, and is given what that gives


def run(steps: Steps) -> Any:
    """What `steps` gives; it is run with a stack of its own, so that nothing can be nested too deeply."""
    stack, value = [steps], None
    while stack:
        try:
            stack.append(stack[-1].send(value))
            value = None
        except StopIteration as end:
            stack.pop()
            value = end.value
    return value


@dataclass(frozen=True, eq=False, slots=True)
class Bind:
    """`let var = expr`."""

    var: Var
    expr: Expr


@dataclass(frozen=True, eq=False, slots=True)
class Branch:
    """`let var = if …` or `match …`: `node` is the original; without patterns it is an if."""

    var: Var
    node: If | Match
    atom: Expr
    patterns: tuple[Pattern, ...]
    codes: tuple[Code, ...]
    complete: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Later:
    """The binding of a value that may turn out not to be named; `held` is what a new cell holds."""

    value: Closure | Made | Cell
    held: Value | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Write:
    """A write to a cell that this program makes."""

    cell: Cell
    value: Value
    node: RefWrite


Entry = Bind | Branch | Later | Write


@dataclass(eq=False, slots=True)
class Block:
    """Bindings in order."""

    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, eq=False, slots=True)
class Code:
    """A block and the atom of its value."""

    block: Block
    result: Expr


class Writer:
    """Makes expressions of code; `body` writes that of a closure which is named."""

    def __init__(self, body: Callable[[Closure], Code], attrs: Callable[[Closure], Any]) -> None:
        self._body = body
        self._attrs = attrs
        self._named: set[Var] = set()
        self._later: dict[Var, Later] = {}
        self._writes: dict[Var, list[Write]] = {}
        self._todo: list[Expr | Code] = []
        self._seen: set[int] = set()
        self._kept: list[Expr] = []  # ids are keys, so the nodes they name must live

    def expr(self, code: Code) -> Expr:
        """The expression that `code` is."""
        self._todo.append(code)
        while self._todo:
            item = self._todo.pop()
            if isinstance(item, Code):
                self._block(item)
            else:
                self._name(item)
        made = run(self._written(code))
        assert isinstance(made, Expr)
        return made

    # ------------------------------------------------------------------ what is named

    def _block(self, code: Code) -> None:
        for entry in code.block.entries:
            match entry:
                case Bind(_, expr):
                    self._todo.append(expr)
                case Branch():
                    self._todo += (entry.atom, *entry.codes)
                case Later():
                    self._later[entry.value.var] = entry
                    if entry.value.var in self._named:
                        self._define(entry)
                case Write(cell, value):
                    self._writes.setdefault(cell.var, []).append(entry)
                    if cell.var in self._named:
                        self._todo.append(value.atom)
        self._todo.append(code.result)

    def _name(self, expr: Expr) -> None:
        """Notes the variables in an expression of atoms."""
        stack = [expr]
        while stack:
            node = stack.pop()
            if isinstance(node, Var):
                self._variable(node)
            elif id(node) not in self._seen:
                self._seen.add(id(node))
                self._kept.append(node)
                stack += () if isinstance(node, Function) else node.children()

    def _variable(self, var: Var) -> None:
        if var in self._named:
            return
        self._named.add(var)
        if var in self._later:
            self._define(self._later[var])

    def _define(self, entry: Later) -> None:
        """Notes what the binding of a value that is named needs."""
        value = entry.value
        if isinstance(value, Made):
            self._todo += (f.atom for f in value.fields)
        elif isinstance(value, Cell):
            assert entry.held is not None
            self._todo.append(entry.held.atom)
            self._todo += (w.value.atom for w in self._writes.get(value.var, ()))
        else:
            value.code = self._body(value)
            self._todo.append(value.code)

    # ------------------------------------------------------------------ expressions

    def _written(self, code: Code) -> Steps:
        bindings: list[tuple[Var, Expr]] = []
        for entry in code.block.entries:
            match entry:
                case Bind(var, expr):
                    bindings.append((var, expr))
                case Branch():
                    bindings.append((entry.var, (yield self._branch(entry))))
                case Later(value) if value.var in self._named:
                    bindings.append((value.var, (yield self._value(entry))))
                case Write(cell, value, node) if cell.var in self._named:
                    write = RefWrite(cell.var, value.atom, ty=UNIT, span=node.span)
                    bindings.append((Var("_", ty=UNIT, span=node.span), write))
        return lets(bindings, code.result)

    def _branch(self, entry: Branch) -> Steps:
        bodies: list[Expr] = []
        for code in entry.codes:
            bodies.append((yield self._written(code)))
        ty, span = entry.var.ty, entry.node.span
        if isinstance(entry.node, If):
            return If(entry.atom, bodies[0], bodies[1], ty=ty, span=span)
        clauses = tuple(Clause(p, b) for p, b in zip(entry.patterns, bodies, strict=True))
        return Match(entry.atom, clauses, entry.complete, ty=ty, span=span)

    def _value(self, entry: Later) -> Steps:
        value = entry.value
        span = value.var.span
        if isinstance(value, Cell):
            assert entry.held is not None
            return RefCreate(entry.held.atom, ty=value.ty, span=span)
        if isinstance(value, Made):
            return _made(value)
        assert value.code is not None
        body = yield self._written(value.code)
        func, env = value.function, value.env
        ret = None if func.ret_type is None else env.type(func.ret_type)
        return Function(value.params, body, ret, func.type_params, self._attrs(value), span=span)


def _made(value: Made) -> Call:
    args = value.ty.args if isinstance(value.ty, TypeCall) else ()
    fields = tuple(f.atom for f in value.fields)
    return Call(value.constructor, fields, None, args, ty=value.ty, span=value.var.span)


def contents(ty: Type | None) -> Type | None:
    """The type of what a cell of type `ty` holds."""
    return ty.value if isinstance(ty, RefType) else None
