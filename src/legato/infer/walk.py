"""The walk that types a function body: every node once, children first, with an explicit stack.

Bindings are opened before what they scope over: a let's variable is typed before the let's body is looked at, so a
chain of any length is typed in one forward sweep and relations are rarely asked twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from legato.arith.expr import Var as DimVar
from legato.base.errors import TypeCheckError
from legato.infer.holes import DimHole, Hole, dim_vars
from legato.infer.solver import Scope, Site, Solver, replace_vars
from legato.infer.typer import Typer
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Dataflow,
    Expr,
    Function,
    GlobalVar,
    Let,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    Var,
)
from legato.ir.op import Op
from legato.ir.types import Dim, FuncType, GlobalTypeVar, TupleType, Type, TypeData, TypeVar

__all__ = ["Opened", "Walk"]


@dataclass(slots=True)
class Opened:
    """A function being typed: its parameters, own dims and type variables, and what is known of its result."""

    params: tuple[Type, ...]
    type_params: tuple[TypeVar | DimVar, ...]
    ret: Type | None  # the annotation
    recursive: Hole  # the result as calls from inside see it, where there is no annotation
    scope: Scope

    def seen_inside(self) -> FuncType:
        """The type that recursive calls use: polymorphic only with an annotated result."""
        if self.ret is None:
            return FuncType(self.params, self.recursive)
        return FuncType(self.params, self.ret, self.type_params)


class Walk:
    """Types of all nodes of a module's functions, in tables beside the (immutable) nodes."""

    def __init__(self, types: Mapping[GlobalTypeVar, TypeData]) -> None:
        self.solver = Solver()
        self.typer = Typer(self.solver, self.type_of, tuple(types.values()))
        self.types: dict[int, Type] = {}
        self.vars: dict[Var, Type] = {}
        self.globals: dict[GlobalVar, Type] = {}
        self.opened: dict[int, Opened] = {}
        self.type_args: dict[int, tuple[Type | Dim, ...]] = {}
        self.errors: list[TypeCheckError] = []
        self._stack: list[Any] = []

    def type_of(self, e: Expr) -> Type | None:
        """What is known of the type of `e`."""
        match e:
            case Var():
                return self.vars.get(e)
            case GlobalVar():
                return self.globals.get(e)
            case Constant():
                return e.ty
            case Constructor():
                return self.typer.constructor_type(e)
            case _:
                return self.types.get(id(e))

    def need(self, e: Expr) -> Type:
        """The type of `e`, which has been visited; a hole where an error was found in it."""
        ty = self.type_of(e)
        return self.solver.hole() if ty is None else ty

    # ------------------------------------------------------------------ the walk

    def function(self, func: Function) -> Type:
        """Types `func` and everything in it."""
        self._stack.append(func)
        while self._stack:
            item = self._stack.pop()
            if isinstance(item, Expr):
                self._visit(item)
            else:
                item()
        return self.need(func)

    def _visit(self, node: Expr) -> None:
        if id(node) in self.types:
            return
        match node:
            case Call():
                self._stack.append(partial(self._guard, self._call, node))
                self._push(node.args if isinstance(node.op, Op) else (node.op, *node.args))
            case Let():
                self._let(node)
            case Function():
                self._function(node)
            case Match():
                self._match(node)
            case Dataflow():
                self._dataflow(node)
            case Var() | GlobalVar():
                self._leaf(node)
            case Constant() | Constructor() | Op():
                pass
            case _:
                self._stack.append(partial(self._guard, self._simple, node))
                self._push(node.children())

    def _push(self, nodes: tuple[Expr, ...]) -> None:
        for n in reversed(nodes):
            if id(n) not in self.types:
                self._stack.append(n)

    def _guard(self, rule: Any, node: Expr) -> None:
        """Runs a typing rule; an error is kept, and the node's type becomes a hole that blames nobody else."""
        try:
            rule(node)
            self.solver.run()
        except TypeCheckError as error:
            self.errors.append(error)
            self.types.setdefault(id(node), self.solver.hole("error"))

    def _leaf(self, node: Var | GlobalVar) -> None:
        if self.type_of(node) is None:
            sign, table = ("%", "bound here") if isinstance(node, Var) else ("@", "a function of the module")
            self.errors.append(TypeCheckError(f"{sign}{node.name} is not {table}", span=node.span))
            if isinstance(node, Var):
                self.vars[node] = self.solver.hole("error")
            else:
                self.globals[node] = self.solver.hole("error")

    def _simple(self, node: Expr) -> None:
        ty = self.typer.simple(node)
        assert ty is not None
        self.types[id(node)] = ty

    def _call(self, node: Call) -> None:
        types = [self.need(a) for a in node.args]
        if isinstance(node.op, Op):
            self.types[id(node)] = self.typer.op_call(node, node.op, types)
            return
        self.types[id(node)], args = self.typer.apply(node, self.need(node.op), types)
        if args:
            self.type_args[id(node)] = args

    # ------------------------------------------------------------------ binders

    def _let(self, node: Let) -> None:
        if isinstance(node.value, Function):
            self.vars[node.var] = self.open(node.value).seen_inside()

        def finish(_: Expr) -> None:
            self.types[id(node)] = self.need(node.body)

        bind = partial(self._bind, node.var, node.value)
        self._stack += [partial(self._guard, finish, node), node.body, bind, node.value]

    def _bind(self, var: Var, value: Expr) -> None:
        """Gives `var` the type of `value`, checked against its annotation."""
        try:
            ty = self.need(value)
            if var.ty is not None:
                ty = self.check(ty, var.ty, Site(f"the value of %{var.name}", value.span or var.span, self.typer.scope))
        except TypeCheckError as error:
            self.errors.append(error)
            ty = self.solver.hole("error")
        self.vars[var] = ty
        self.typer.bound[var] = value

    def check(self, ty: Type, annotation: Type, site: Site) -> Type:
        """`ty`, required to fit `annotation`; dims that only the annotation names stand for whatever `ty` has there."""
        unknown: dict[DimVar, Dim] = {
            v: self.solver.dim_hole(v.name) for v in dim_vars(annotation) if v not in site.scope.dims
        }
        wanted = replace_vars(self.solver.open(annotation), {}, unknown)
        self.solver.unify(ty, wanted, site)
        return self.solver.zonk(ty)

    def _dataflow(self, node: Dataflow) -> None:
        def finish(_: Expr) -> None:
            self.types[id(node)] = TupleType(tuple(self.need(o) for o in node.outputs))

        work: list[Any] = []
        for var, value in node.bindings:
            work += [value, partial(self._bind, var, value)]
        self._stack += reversed([*work, *node.outputs, partial(self._guard, finish, node)])

    def _match(self, node: Match) -> None:
        def finish(_: Expr) -> None:
            bodies = [self.need(c.body) for c in node.clauses]
            self.types[id(node)] = self.typer.join(bodies, node, "the clauses of match")

        work: list[Any] = [node.data]
        for clause in node.clauses:

            def bind(_: Expr, pattern: Pattern = clause.pattern) -> None:
                self._pattern(pattern, self.need(node.data), node)

            work += [partial(self._guard_pattern, bind, node), clause.body]
        self._stack += reversed([*work, partial(self._guard, finish, node)])

    def _guard_pattern(self, rule: Any, node: Expr) -> None:
        try:
            rule(node)
        except TypeCheckError as error:
            self.errors.append(error)

    def _pattern(self, pattern: Pattern, ty: Type, node: Match) -> None:
        site = self.typer.site("a pattern of match", node)
        match pattern:
            case PatternVar(var):
                self.vars[var] = ty if var.ty is None else self.check(ty, var.ty, site)
            case PatternTuple(patterns):
                holes: tuple[Type, ...] = tuple(self.solver.hole() for _ in patterns)
                self.solver.unify(ty, TupleType(holes), site)
                for p, h in zip(patterns, holes, strict=True):
                    self._pattern(p, self.solver.zonk(h), node)
            case PatternConstructor(con, patterns):
                used, _, _ = self.solver.instantiate(self.typer.constructor_type(con), self.typer.scope)
                self.solver.unify(ty, used.ret, site)
                if len(patterns) != len(used.params):
                    message = f"pattern {con.name}: got {len(patterns)} fields, wanted {len(used.params)}"
                    raise TypeCheckError(message, span=node.span)
                for p, f in zip(patterns, used.params, strict=True):
                    self._pattern(p, self.solver.zonk(f), node)

    # ------------------------------------------------------------------ functions

    def open(self, func: Function) -> Opened:
        """Parameters, own dims and scope of `func`, made on first sight."""
        found = self.opened.get(id(func))
        if found is not None:
            return found
        outer = self.typer.scope
        params = tuple(self.solver.open(p.ty, p.name) for p in func.params)
        dims = tuple(v for ty in params for v in dim_vars(ty) if v not in outer.dims and not isinstance(v, DimHole))
        declared = [
            p for p in func.type_params if p not in outer.dims
        ]  # a dim that is bound outside is not bound again
        own = tuple(dict.fromkeys([*declared, *dims]))
        scope = outer.child()
        scope.dims.update(v for v in own if isinstance(v, DimVar))
        ret = func.ret_type
        found = Opened(params, own, None if ret is None else self.solver.open(ret), self.solver.hole("result"), scope)
        self.opened[id(func)] = found
        return found

    def _function(self, func: Function) -> None:
        opened, outer = self.open(func), self.typer.scope

        def enter() -> None:
            self.typer.scope = opened.scope
            self.vars.update(zip(func.params, opened.params, strict=True))

        def leave(_: Expr) -> None:
            self.typer.scope = outer
            self.types[id(func)] = self._close(func, opened)

        self._stack += [partial(self._guard, leave, func), func.body, enter]

    def _close(self, func: Function, opened: Opened) -> FuncType:
        body = self.need(func.body)
        site = Site("the result of the function", func.body.span or func.span, opened.scope)
        ret = opened.ret
        if ret is None:
            ret = self.solver.zonk(body)
            self.solver.unify(opened.recursive, ret, site)
        else:
            self.check(body, ret, site)
        return FuncType(opened.params, ret, opened.type_params)
