"""Continuation-passing style: a function gives its result to a function that it takes; calls are the last thing done.

    def @main(%x: int32) -> int32 {                  def @main[A](%x: int32, %k: fn (int32) -> A) -> A {
      let %y = @f(%x);                                 @f(%x, fn (%y: int32) -> A {
      add(%y, 1)                            =>           let %z = add(%y, 1);
    }                                                    %k(%z)
                                                       })
                                                     }

What is done after a branch or a match is a function that each of its branches calls. Operators, constructors, cells,
casts, tensor programs, groups of operators and functions of other compilers are called as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError, UnsupportedError
from legato.base.node import post_order as nodes
from legato.infer.infer import infer
from legato.ir.atoms import is_primitive
from legato.ir.clauses import Clause, Pattern
from legato.ir.devices import PARAMS, RESULT
from legato.ir.effects import brought_dims
from legato.ir.expr import Call, Constructor, Expr, Function, GlobalVar, If, Let, Match, Var
from legato.ir.let import chain
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import binders, post_order
from legato.ir.types import FuncType, Type, TypeVar
from legato.transform._copy import Copy
from legato.transform._cps import answer_of, is_direct, made_direct
from legato.transform._cps_types import DataTypes, continuation
from legato.transform._values import written_out
from legato.transform.pass_ import Pass
from legato.transform.to_a_normal import ToANormal

__all__ = ["ToCPS"]

_FOREIGN = ("Primitive", "Compiler", "Extern")  # attributes of functions that are called as they are


@dataclass(frozen=True, slots=True)
class ToCPS(Pass):
    """Module → typed module whose functions take what is to be done with their result as their last argument.

    @main only calls such a function: it stays what the program is called by. UnsupportedError where it takes or gives
    functions.
    """

    name = "to-cps"
    whole: bool = False  # @main takes a continuation as well

    def __call__(self, mod: Module) -> Module:
        own = {gv: f for gv, f in mod.graph_functions() if not any(f.attrs.get(name) for name in _FOREIGN)}
        if all(answer_of(f) is not None or (is_direct(f) and not self.whole) for f in own.values()):
            return mod
        _require_unplaced(own.values())
        types = DataTypes(mod.types)
        mains = [gv for gv in own if gv.name == "main" and not self.whole]
        for gv in mains:
            _require_plain(own[gv], types)
        mod = ToANormal()(mod.with_functions({**mod.functions, **{gv: written_out(f, mod) for gv, f in own.items()}}))
        names = {gv: GlobalVar(gv.name, uid=gv.uid) for gv in own}
        made = {gv: _Converter(names, types).whole(f) for gv, f in mod.graph_functions() if gv in own}
        new = _typed(replace(mod, functions={**mod.functions, **made}, types=types.types), own.values())
        if any(answer_of(f) is None for f in map(new.functions.__getitem__, made) if isinstance(f, Function)):
            raise _of_data()
        return infer(made_direct(new, mains))


def _typed(mod: Module, functions: Iterable[Function]) -> Module:
    """`mod` with types. UnsupportedError where dims that depend on data stand between a function and its answer."""
    try:
        return infer(mod)
    except TypeCheckError as error:
        if any(brought_dims(node) for func in functions for node in nodes([func.body])):
            raise _of_data() from error
        raise


def _of_data() -> UnsupportedError:
    message = "continuations of values whose dims depend on data have no type"
    return UnsupportedError(message, hint="state their dims by match_cast, or leave to-cps out")


def _require_unplaced(functions: Iterable[Function]) -> None:
    """UnsupportedError where a plan says on which devices parameters lie: continuations are none of them."""
    for func in functions:
        if PARAMS in func.attrs or RESULT in func.attrs:
            raise UnsupportedError(
                "a program that is planned for devices has no continuation-passing style",
                span=func.span, hint="to-cps runs before plan-devices",
            )  # fmt: skip


def _require_plain(main: Function, types: DataTypes) -> None:
    """UnsupportedError where a function of the program's takes or gives functions."""
    assert isinstance(main.ty, FuncType)
    for ty in (*main.ty.params, main.ty.ret):
        if types.holds_function(ty):
            raise UnsupportedError(
                "@main takes or gives functions, which would take a continuation then",
                span=main.span,
                details=[f"{ty}"],
                hint="call them inside; or let @main have a continuation as well (whole=True)",
            )


@dataclass(frozen=True, eq=False, slots=True)
class _Block:
    """A block in A-normal form, and what takes its result."""

    body: Expr
    then: Var


@dataclass(slots=True, eq=False)
class _Work:
    """The blocks of a function, outer ones first, and what became of the inner ones: by value and operand."""

    blocks: list[tuple[tuple[int, int], _Block]] = field(default_factory=list)
    made: dict[tuple[int, int], Expr] = field(default_factory=dict)
    joins: dict[int, Var] = field(default_factory=dict)  # continuations of branches and matches, by value


class _Converter(Copy):
    """Converts one function of the module; `names` are the functions that have the new style."""

    def __init__(self, names: Mapping[GlobalVar, GlobalVar], types: DataTypes) -> None:
        super().__init__()
        self._names = names
        self._data_types = types
        self._answer = TypeVar("Answer")

    def type(self, ty: Type) -> Type:
        """`ty` with functions that take continuations."""
        return self._data_types.type(ty, self._answer)

    def node(self, node: Expr, kids: tuple[Expr, ...]) -> Expr:
        """The new node for one whose operands are new."""
        if isinstance(node, Constructor):
            return self._data_types.constructor(node)
        made = super().node(node, kids)
        if (
            isinstance(made, Call)
            and isinstance(node, Call)
            and made.op is not node.op
            and isinstance(made.op, Constructor)
        ):
            return replace(made, type_args=(*made.type_args, self._answer))  # it holds functions
        return made

    def pattern(self, pattern: Pattern) -> Pattern:
        """A pattern with new variables and constructors."""
        return self._data_types.pattern(super().pattern(pattern))

    def _continuation(self, result: Type) -> FuncType:
        return continuation(self.type(result), self._answer)

    def whole(self, func: Function) -> Function:
        """The converted function of the module."""
        for node in post_order(func):
            if not is_primitive(node):
                for scope in binders(node):
                    for var in scope:
                        self.bind(var)
        work = _Work()
        params = self._enter(work, func, (id(func), 0))
        for key, block in work.blocks:
            self._find(work, key, block)
        for key, block in reversed(work.blocks):
            work.made[key] = self._block(work, block)
        return Function(params, work.made[id(func), 0], self._answer,
                        (*func.type_params, self._answer), func.attrs, span=func.span)  # fmt: skip

    def _enter(self, work: _Work, func: Function, key: tuple[int, int]) -> tuple[Var, ...]:
        """The parameters of a converted function, whose body becomes work."""
        assert func.body.ty is not None
        then = Var("k", ty=self._continuation(func.body.ty), span=func.span)
        work.blocks.append((key, _Block(func.body, then)))
        return (*map(self._bound, func.params), then)

    # ------------------------------------------------------------------ blocks

    def _find(self, work: _Work, key: tuple[int, int], block: _Block) -> None:
        """Lists the blocks inside."""
        bindings, result = chain(block.body)
        for n, (var, value) in enumerate(bindings):
            if isinstance(value, If | Match):
                is_last = n == len(bindings) - 1 and result == var
                then = block.then if is_last else self._join(work, value, var)
                bodies = (value.then, value.orelse) if isinstance(value, If) else [c.body for c in value.clauses]
                work.blocks += [((id(value), m), _Block(body, then)) for m, body in enumerate(bodies)]
            elif isinstance(value, Function) and not is_primitive(value):
                params = self._enter(work, value, (id(value), 0))
                work.joins[id(value)] = params[-1]

    def _join(self, work: _Work, value: Expr, var: Var) -> Var:
        assert var.ty is not None
        found = Var("k", ty=self._continuation(var.ty), span=value.span)
        work.joins[id(value)] = found
        return found

    def _block(self, work: _Work, block: _Block) -> Expr:
        bindings, result = chain(block.body)
        is_tail = bool(bindings) and result == bindings[-1][0]
        body: Expr = Call(block.then, (self._operand(result),), span=result.span)
        for n, (var, value) in reversed(list(enumerate(bindings))):
            rest = None if is_tail and n == len(bindings) - 1 else body
            body = self._binding(work, self._bound(var), value, rest, block.then, body)
        return body

    def _binding(self, work: _Work, var: Var, value: Expr, rest: Expr | None, then: Var, body: Expr) -> Expr:
        """What binds a value and goes on; rest: None if the value is the result of the block, which `then` takes."""
        if isinstance(value, Call) and self._passes_on(value.op):
            after = then if rest is None else self._function_of(var, rest)
            own = tuple(self.type(a) if isinstance(a, Type) else a for a in value.type_args)
            if isinstance(value.op, GlobalVar):  # local functions give the answer of the function around
                own = (*own, self._answer)
            args = (*map(self._operand, value.args), after)
            return Call(self._callee(value.op), args, value.attrs, own, span=value.span)
        if isinstance(value, If | Match):
            branch = self._branch(work, value)
            if rest is None:
                return branch
            return Let(work.joins[id(value)], self._function_of(var, rest), branch, span=value.span)
        return Let(var, self._simple(work, value), body, span=value.span)

    def _function_of(self, var: Var, rest: Expr) -> Function:
        return Function((var,), rest, self._answer, span=var.span)

    def _branch(self, work: _Work, value: If | Match) -> Expr:
        if isinstance(value, If):
            then, orelse = (work.made[id(value), n] for n in (0, 1))
            return If(self._operand(value.cond), then, orelse, span=value.span)
        clauses = (Clause(self.pattern(c.pattern), work.made[id(value), n]) for n, c in enumerate(value.clauses))
        return replace(value, data=self._operand(value.data), clauses=tuple(clauses), ty=None)

    # ------------------------------------------------------------------ values

    def _passes_on(self, callee: Expr) -> bool:
        """Whether a callee takes a continuation."""
        if isinstance(callee, GlobalVar):
            return callee in self._names
        return not isinstance(callee, Op | Constructor) and not is_primitive(callee)

    def _callee(self, callee: Expr) -> Expr:
        return self._names[callee] if isinstance(callee, GlobalVar) else self._operand(callee)

    def _simple(self, work: _Work, value: Expr) -> Expr:
        """A value that no continuation is needed for."""
        if isinstance(value, Function) and not is_primitive(value):
            params = (*map(self._bound, value.params), work.joins[id(value)])
            return Function(
                params, work.made[id(value), 0], self._answer, value.type_params, value.attrs, span=value.span
            )
        return self.node(value, tuple(map(self._operand, value.children())))

    def _operand(self, value: Expr) -> Expr:
        """What is written in place: atoms, groups, tuples of these."""
        new: dict[int, Expr] = {}
        for node in nodes([value], lambda n: not isinstance(n, Function)):
            is_group = isinstance(node, Function)
            new[id(node)] = node if is_group else self.node(node, tuple(new[id(kid)] for kid in node.children()))
        return new[id(value)]
