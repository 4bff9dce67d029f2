"""The partial evaluator: one rule for every kind of expression, as in `interp.rules`, over programs in A-normal form.

What is known is done; for the rest, code is written in the order of the original's effects. A choice that is known is
taken; of one that is not, each branch is written as a block of its own, with a frame of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from legato.base.dataclass import dataclass
from legato.ir.clauses import Clause, Pattern
from legato.ir.exhaustive import unmatched_cases
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
)
from legato.ir.op import Op
from legato.ir.scope import post_order
from legato.ir.types import RefType, TupleType, Type
from legato.transform._partial.calls import Calls
from legato.transform._partial.code import Bind, Block, Branch, Code, Later, Steps, Write
from legato.transform._partial.patterns import Fit, fitting, residual, taken
from legato.transform._partial.scope import Activation
from legato.transform._partial.store import Frame, Store
from legato.transform._partial.values import Cell, Closure, Fields, Literal, Unknown, Value
from legato.transform._types import has_function

if TYPE_CHECKING:
    from legato.transform._partial.attempt import Attempt

__all__ = ["Active", "Evaluator"]

OPAQUE = ("Primitive", "Compiler", "Composite")  # attributes of functions that are left as they are


@dataclass(frozen=True, eq=False, slots=True)
class Active:
    """A function that is being evaluated: what is known of it and its arguments, and in how many branches it was
    called; -1 where code is written for calls that may come from anywhere."""

    key: tuple[int, ...]
    size: int
    level: int


class Evaluator:
    """Writes code for one function of the new program, or for one closure in it."""

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.store = Store()
        self.active: dict[Function, list[Active]] = {}
        self.level = 0
        self.keys = attempt.keys
        self.conform = attempt.conform
        self._calls = Calls(self)

    # ------------------------------------------------------------------ blocks

    def code(self, body: Expr, ty: Type | None, env: Activation, block: Block) -> Steps:
        """The code of a body, behind what `block` has already; `ty` is the type of its value."""
        value = yield self.block(body, env, block)
        if ty is not None and value.ty is not None and not env.new_dims(ty):
            value = self.conform(value, ty, env, block)
        self.store.leak(value)
        return Code(block, value.atom)

    def block(self, expr: Expr, env: Activation, block: Block) -> Steps:
        """The value of a chain of lets."""
        while isinstance(expr, Let):
            var, node = expr.var, expr.value
            value = self.step(node, var, env, block)
            if not isinstance(value, Value):
                value = yield value
            value = self.conform(value, node.ty if var.ty is None else var.ty, env, block)
            env.vars[var] = value
            if isinstance(node, Function) and isinstance(value, Closure):
                value.own, reads = var, [v for v in self.attempt.reads(node) if v != var]
                value.close(reads, [env.value(v) for v in reads], self.keys)
            expr = expr.body
        return self.operand(expr, env)

    def operand(self, expr: Expr, env: Activation) -> Value:
        """The value of an atom, or of a tuple of them."""
        if not isinstance(expr, Tuple):
            return self._atom(expr, env)
        found: dict[int, Value] = {}
        for node in post_order(expr, lambda n: isinstance(n, Tuple)):
            if isinstance(node, Tuple):
                ty = None if node.ty is None else env.type(node.ty)
                found[id(node)] = Fields([found[id(f)] for f in node.fields], self.keys, ty)
            else:
                found[id(node)] = self._atom(node, env)
        return found[id(expr)]

    def _atom(self, expr: Expr, env: Activation) -> Value:
        match expr:
            case Var():
                return env.value(expr)
            case Constant() | Op() | Constructor() | GlobalVar():
                return self.attempt.known(expr)
            case Shape():
                return Unknown(env.node(expr, (), None if expr.ty is None else env.type(expr.ty)))
            case Function():
                return Unknown(env.copy(expr))
            case _:
                raise AssertionError(f"{expr!r} is no atom")

    def inside(self, func: Function, key: tuple[int, ...], size: int, env: Activation, block: Block) -> Steps:
        """The value of the body of a function that is called here."""
        stack = self.active.setdefault(func, [])
        stack.append(Active(key, size, self.level))
        value = yield self.block(func.body, env, block)
        stack.pop()
        return value

    # ------------------------------------------------------------------ rules

    def step(self, node: Expr, var: Var, env: Activation, block: Block) -> Value | Steps:
        """The value of a node that `var` is bound to, or the work that finds it."""
        match node:
            case Call():
                return self._calls.call(node, var, env, block)
            case If():
                return self._if(node, var, env, block)
            case Match():
                return self._match(node, var, env, block)
            case Function():
                return self._function(node, var, env, block)
            case TupleGetItem():
                return self.field(self.operand(node.value, env), node.index, node, block)
            case RefCreate():
                return self._ref_create(node, var, env, block)
            case RefRead():
                return self._ref_read(node, var, env, block)
            case RefWrite():
                return self._ref_write(node, env, block)
            case MatchCast():
                return self._match_cast(node, env, block)
            case _:
                return self.operand(node, env)

    def bind(self, var: Var, expr: Expr, block: Block) -> Unknown:
        """The value of `expr`, which is computed here."""
        made = Var(var.name, ty=expr.ty, span=var.span)
        block.entries.append(Bind(made, expr))
        return Unknown(made)

    def _function(self, node: Function, var: Var, env: Activation, block: Block) -> Value:
        ty = None if node.ty is None else env.type(node.ty)
        if any(name in node.attrs for name in OPAQUE):
            for v in self.attempt.reads(node):
                self.store.leak(env.value(v))
            return self.bind(var, env.copy(node), block)
        closure = Closure(node, env, Var(var.name, ty=ty, span=node.span))
        block.entries.append(Later(closure))
        return closure

    def field(self, value: Value, index: int, node: Expr, block: Block) -> Value:
        """Field `index` of a tuple."""
        if isinstance(value, Fields):
            return value.fields[index]
        ty = value.ty.fields[index] if isinstance(value.ty, TupleType) else None
        return self.bind(Var("field", span=node.span), TupleGetItem(value.atom, index, ty=ty, span=node.span), block)

    def _match_cast(self, node: MatchCast, env: Activation, block: Block) -> Value:
        value = self.operand(node.value, env)
        if has_function(node.target):
            return self.conform.cast(value, env.type(node.target), block)
        return self.conform(value, node.target, env, block)

    # ------------------------------------------------------------------ cells

    def _ref_create(self, node: RefCreate, var: Var, env: Activation, block: Block) -> Value:
        held = self.operand(node.value, env)
        ty = None if node.ty is None else env.type(node.ty)
        cell = Cell(Var(var.name, ty=ty, span=node.span))
        block.entries.append(Later(cell, held))
        self.store.write(cell, held)
        return cell

    def _ref_read(self, node: RefRead, var: Var, env: Activation, block: Block) -> Value:
        ref = self.operand(node.ref, env)
        held = self.store.read(ref) if isinstance(ref, Cell) else None
        if held is None:
            ty = ref.ty.value if isinstance(ref.ty, RefType) else None
            held = self.bind(var, RefRead(ref.atom, ty=ty, span=node.span), block)
            if isinstance(ref, Cell):
                self.store.write(ref, held)
        return held

    def _ref_write(self, node: RefWrite, env: Activation, block: Block) -> Value:
        ref, value = self.operand(node.ref, env), self.operand(node.value, env)
        if isinstance(ref, Cell):
            block.entries.append(Write(ref, value, node))
            self.store.write(ref, value)
        else:
            self.store.leak(value)
            self.bind(Var("_"), RefWrite(ref.atom, value.atom, ty=node.ty, span=node.span), block)
            self.store.forget()
        return Fields((), self.keys)

    # ------------------------------------------------------------------ choices

    def _if(self, node: If, var: Var, env: Activation, block: Block) -> Steps:
        cond = self.operand(node.cond, env)
        if isinstance(cond, Literal):
            return (yield self.block(node.then if cond.constant.data.item() else node.orelse, env, block))
        return (yield self._branches(node, cond.atom, (node.then, node.orelse), var, env, block))

    def _match(self, node: Match, var: Var, env: Activation, block: Block) -> Steps:
        data = self.operand(node.data, env)
        if not node.clauses:  # of a data type that has no values
            ty = None if node.ty is None else env.type(node.ty)
            return self.bind(var, Match(data.atom, (), node.complete, ty=ty, span=node.span), block)
        fits = fitting(node.clauses, data)
        if fits[0].is_certain:
            for v, value in taken(fits[0], lambda value, n: self.field(value, n, node, block)):
                env.vars[v] = self.conform(value, v.ty, env, block)
            return (yield self.block(fits[0].clause.body, env, block))
        self.store.leak(data)
        return (yield self._branches(node, data.atom, fits, var, env, block))

    def _pattern(self, found: Fit, env: Activation, block: Block) -> Pattern:
        """The pattern of a clause that may fit; what its variables stand for is bound, in its block."""

        def new(v: Var) -> Var:
            made = Var(v.name, ty=None if v.ty is None else env.type(v.ty), span=v.span)
            env.vars[v] = Unknown(made)
            return made

        for v, value in found.known.items():
            env.vars[v] = self.conform(value, v.ty, env, block)
        return residual(found.clause.pattern, found.known, new)

    def _branches(
        self,
        node: If | Match,
        atom: Expr,
        choices: Sequence[Expr | Fit],
        var: Var,
        env: Activation,
        block: Block,
    ) -> Steps:
        """A choice that the program makes when it runs, of branches or clauses."""
        patterns: list[Pattern] = []
        blocks: list[Block] = []
        values: list[Value] = []
        frames: list[Frame] = []
        self.level += 1
        for choice in choices:
            blocks.append(Block())
            self.store.enter()
            if isinstance(choice, Fit):
                patterns.append(self._pattern(choice, env, blocks[-1]))
            body = choice.clause.body if isinstance(choice, Fit) else choice
            values.append((yield self.block(body, env, blocks[-1])))
            frames.append(self.store.leave())
        self.level -= 1
        ty, values = self.conform.join(node.ty, values, env, blocks)
        self.store.join(frames)
        for value in values:
            self.store.leak(value)
        codes = tuple(Code(b, v.atom) for b, v in zip(blocks, values, strict=True))
        made = Var(var.name, ty=ty, span=var.span)
        complete = isinstance(node, If) or self._is_complete(node, atom, patterns)
        block.entries.append(Branch(made, node, atom, tuple(patterns), codes, complete))
        return Fields((), self.keys) if ty == TupleType(()) else Unknown(made)

    def _is_complete(self, node: Match, atom: Expr, patterns: Sequence[Pattern]) -> bool:
        """Whether every value fits one of the patterns, whatever is known of the value here."""
        if not node.complete:
            return False
        if len(patterns) == len(node.clauses):
            return True
        trial = Match(atom, tuple(Clause(p, atom) for p in patterns), True, ty=node.ty)
        return not unmatched_cases(trial, self.attempt.types, limit=1)
