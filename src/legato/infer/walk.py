"""The walk that types a function body: every node once, children first, with an explicit stack.

Bindings are opened before what they scope over: a let's variable is typed before the let's body is looked at, so a
chain of any length is typed in one forward sweep and relations are rarely asked twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from legato.arith.expr import Const
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.base.span import Span
from legato.infer.demands import Demands, KnownCall
from legato.infer.holes import DimHole, Hole, dim_vars, has_holes, show
from legato.infer.replace import replace_vars
from legato.infer.site import Scope, Site, place
from legato.infer.solver import Solver
from legato.infer.typer import Typer, stated_dims
from legato.ir.attr_types import dim_fields
from legato.ir.attrs import dims_of
from legato.ir.call_tir import CALL_TIR, calling
from legato.ir.clauses import Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.exhaustive import is_empty, show_pattern, unmatched_cases
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
    MatchCast,
    Shape,
    Var,
    callee_name,
)
from legato.ir.kinds import kind_fault
from legato.ir.op import Op
from legato.ir.scope import pattern_vars
from legato.ir.types import Dim, FuncType, GlobalTypeVar, TupleType, Type, TypeData, TypeVar
from legato.tir.stmt import Func

__all__ = ["Opened", "Walk"]

_SHOWN: Final = 5  # missing cases of a match that a message lists


@dataclass(slots=True)
class Opened:
    """A function being typed: its parameters, own dims and type variables, and what is known of its result."""

    params: tuple[Type, ...]
    type_params: tuple[TypeVar | DimVar, ...]
    ret: Type | None  # the annotation
    recursive: Hole  # the result as calls from inside see it, where there is no annotation
    scope: Scope

    def seen_inside(self) -> FuncType:
        """The type that recursive calls use: polymorphic only where the program states all of it."""
        ret = self.recursive if self.ret is None else self.ret
        known = not any(map(has_holes, (*self.params, ret)))
        return FuncType(self.params, ret, self.type_params if known else ())


class Walk:
    """Types of all nodes of a module's functions, in tables beside the (immutable) nodes."""

    def __init__(self, types: Mapping[GlobalTypeVar, TypeData]) -> None:
        self.solver = Solver()
        self.typer = Typer(self.solver, self.type_of, tuple(types.values()))
        self.types: dict[int, Type] = {}
        self.vars: dict[Var, Type] = {}
        self.globals: dict[GlobalVar, Type] = {}
        self.opened: dict[int, Opened] = {}
        self.finished: dict[GlobalVar, Opened] = {}
        self.demands = Demands(self.solver)
        self.type_args: dict[int, tuple[Type | Dim, ...]] = {}
        self.errors: list[TypeCheckError] = []
        self.programs: dict[GlobalVar, Func] = {}  # tensor programs, which only call_tir may name
        self.has_blocks = False  # of dataflow
        self._data_types = types
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

    def need(self, e: Expr, user: Expr) -> Type:
        """The type of `e`, an operand of `user` that has been visited; ask once for each use of an operator."""
        return self.typer.need(e, user)

    def annotation(self, ty: Type | None, span: Span | None, name: str = "_") -> Type:
        """What the program states as a type; one that is of the wrong kind is an error."""
        fault = None if ty is None else kind_fault(ty, self._data_types)
        if fault is None:
            return self.solver.open(ty, name)
        self.errors.append(TypeCheckError(fault, span=span))
        return self.solver.failed()

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
        return self.types[id(func)]

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
                pass  # an operator is typed by each of its uses
            case _:
                self._stack.append(partial(self._guard, self._simple, node))
                self._push(node.children())

    def _push(self, nodes: tuple[Expr, ...]) -> None:
        for n in reversed(nodes):
            if id(n) not in self.types:
                self._stack.append(n)

    def _guard(self, rule: Any, node: Expr) -> None:
        """Runs a typing rule; an error is kept, and the node's type becomes one that blames nobody else.

        What the rule had found before it failed may be wrong: so may be what follows from that.
        """
        failed = False
        try:
            rule(node)
        except TypeCheckError as error:
            failed = True
            self.blame(error, node.span)
            self.types[id(node)] = self.solver.failed()
        self.ask_again(node.span, quiet=failed)

    def ask_again(self, span: Span | None, *, quiet: bool = False) -> None:
        """Asks what waited for holes that are filled now; keeps the errors, unless they are to be passed over."""
        while True:
            try:
                self.solver.run()
            except TypeCheckError as error:
                if not quiet:
                    self.blame(error, span)
            else:
                return

    def blame(self, error: TypeCheckError, span: Span | None) -> None:
        """Keeps an error; where it does not know its place, that is `span`."""
        if error.span is None:
            error.span = span
        self.errors.append(error)

    def _leaf(self, node: Var | GlobalVar) -> None:
        if self.type_of(node) is None:
            sign, table = ("%", "bound here") if isinstance(node, Var) else ("@", "a function of the module")
            self.errors.append(TypeCheckError(f"{sign}{node.name} is not {table}", span=node.span))
            if isinstance(node, Var):
                self.vars[node] = self.solver.failed()
            else:
                self.globals[node] = self.solver.failed()

    def _simple(self, node: Expr) -> None:
        if isinstance(node, MatchCast):
            fault = kind_fault(node.target, self._data_types)
            if fault is not None:
                raise TypeCheckError(fault, span=node.span)
        if isinstance(node, Shape):
            self._use_dims(node.dims, node.span)
        ty = self.typer.simple(node)
        assert ty is not None
        self.types[id(node)] = ty

    def _call(self, node: Call) -> None:
        types = [self.need(a, node) for a in node.args]
        if isinstance(node.op, Op):
            self.types[id(node)] = self.typer.op_call(node, self._operator(node, node.op), types)
            if node.op.attrs is not None:
                self._use_dims(tuple(getattr(node.attrs, name) for name in dim_fields(node.op.attrs)), node.span)
            return
        self._use_dims(node.type_args, node.span)
        if isinstance(node.op, GlobalVar) and node.op in self.programs:
            hint = f"call_tir(@{node.op.name}, …, out=[…]) runs it"
            raise TypeCheckError(f"@{node.op.name} is a tensor program, not a function", span=node.span, hint=hint)
        for arg in node.type_args:
            fault = kind_fault(arg, self._data_types) if isinstance(arg, Type) else None
            if fault is not None:
                raise TypeCheckError(fault, span=node.span)
        self.types[id(node)], args = self.typer.apply(node, self.need(node.op, node), types)
        if isinstance(node.op, Constructor):
            args = tuple(a for a in args if isinstance(a, Type))
        if args:
            self.type_args[id(node)] = args
        callee = self._callee(node.op)
        if callee is not None:
            params, scope, name = callee.type_params, self.typer.scope, callee_name(node.op)
            self.demands.note(KnownCall(name, callee.scope, params, args, scope, node.span))

    def _operator(self, node: Call, op: Op) -> Op:
        """`op`, or what it is in this call: a call of a tensor program is typed by that program."""
        program = self.programs.get(node.args[0]) if op is CALL_TIR and isinstance(node.args[0], GlobalVar) else None
        return op if program is None else calling(program)

    def _callee(self, e: Expr) -> Opened | None:
        """The function that `e` is known to be, if it is typed already and may demand something of its callers."""
        while isinstance(e, Var) and e in self.typer.bound:
            e = self.typer.bound[e]
        if isinstance(e, GlobalVar):
            found = self.finished.get(e)
            return found if found is not None and found.scope.constraints else None
        return self.opened[id(e)] if isinstance(e, Function) and id(e) in self.types else None

    def _use_dims(self, values: tuple[Any, ...], span: Span | None) -> None:
        """Requires the dims in `values`, as which they are used, to be bound by now."""
        found = [d for d in dims_of(values) if not isinstance(d, Const)]
        for v in variables(*map(self.solver.dim, found)) if found else ():
            if v not in self.typer.scope.dims and not isinstance(v, DimHole):
                hint = "a parameter's type or match_cast binds dims"
                raise TypeCheckError(f"dim {v.name} is not bound here", span=span, hint=hint)

    # ------------------------------------------------------------------ binders

    def _let(self, node: Let) -> None:
        if isinstance(node.value, Function):
            like = node.var.ty if isinstance(node.var.ty, FuncType) else None
            self.vars[node.var] = self.open(node.value, f"%{node.var.name}", like).seen_inside()

        def finish(_: Expr) -> None:
            self.types[id(node)] = self.need(node.body, node)

        bind = partial(self._bind, node.var, node.value, node)
        self._stack += [partial(self._guard, finish, node), node.body, bind, node.value]

    def _bind(self, var: Var, value: Expr, user: Expr) -> None:
        """Gives `var` the type of `value`, checked against its annotation."""
        try:
            ty = self.need(value, user)
            if var.ty is not None:
                ty = self.check(ty, var.ty, Site(f"the value of %{var.name}", place(value, var), self.typer.scope))
        except TypeCheckError as error:
            self.blame(error, value.span or var.span)
            ty = self.solver.failed()
        self.vars[var] = ty
        if value != var:  # bound to itself it is nothing, which has been noted
            self.typer.bound[var] = value

    def check(self, ty: Type, annotation: Type, site: Site) -> Type:
        """`annotation`, which `ty` is required to fit; dims that only it names stand for whatever `ty` has there."""
        unknown: dict[DimVar, Dim] = {
            v: self.solver.dim_hole(v.name, v.lo, v.hi) for v in dim_vars(annotation) if v not in site.scope.dims
        }
        wanted = replace_vars(self.annotation(annotation, site.span), {}, unknown)
        self.solver.unify(ty, wanted, site)
        for v, hole in unknown.items():
            self.solver.name(self.solver.dim(hole), v, site.scope)
        return self.solver.zonk(wanted)

    def _dataflow(self, node: Dataflow) -> None:
        self.has_blocks = True

        def finish(_: Expr) -> None:
            self.types[id(node)] = TupleType(tuple([self.need(o, node) for o in node.outputs]))

        work: list[Any] = []
        for var, value in node.bindings:
            work += [value, partial(self._bind, var, value, node)]
        self._stack += reversed([*work, *node.outputs, partial(self._guard, finish, node)])

    def _match(self, node: Match) -> None:
        def finish(_: Expr) -> None:
            bodies = [c.body for c in node.clauses]
            join = self.typer.join
            self.types[id(node)] = (
                join(bodies, node, "the clauses of match") if bodies else self._impossible(node, data)
            )

        data = self.solver.hole()
        wrong: set[object] = set()  # what the patterns are of that have been found wrong
        work: list[Any] = [node.data, partial(self._matched, node, data)]
        for clause in node.clauses:
            work += [partial(self._bind_pattern, clause.pattern, data, node, wrong), clause.body]
        cover = partial(self._cover, node, wrong)
        self._stack += reversed([*work, cover, partial(self._guard, finish, node)])

    def _matched(self, node: Match, data: Hole) -> None:
        self.solver.unify(data, self.need(node.data, node), self.typer.site("match", node))

    def _impossible(self, node: Match, data: Hole) -> Type:
        """The type of a match without clauses: any, since there is no value that it could be asked of."""
        ty = self.solver.resolve(data)
        if isinstance(ty, Hole) and ty.failed:
            return ty
        if not is_empty(ty, self._data_types):
            details = [f"it is of : {show(self.solver.zonk(ty))}"]
            hint = "only one over a data type without constructors has none"
            raise TypeCheckError("a match needs a clause", span=node.span, details=details, hint=hint)
        return self.solver.hole("the result of match")

    def _cover(self, node: Match, wrong: set[object]) -> None:
        """A match that promises to be complete must take every value."""
        if wrong or not (node.complete and node.clauses):
            return
        try:
            missing = unmatched_cases(node, self._data_types, limit=_SHOWN + 1)
        except TypeCheckError as error:
            self.errors.append(error)
            return
        if missing:
            details = [f"missing : {show_pattern(p)}" for p in missing[:_SHOWN]]
            details += ["and others"] * (len(missing) > _SHOWN)
            hint = "add clauses, or `_ => …` for all of them; match? need not cover every case"
            message = "this match does not cover every case"
            self.errors.append(TypeCheckError(message, span=node.span, details=details, hint=hint))

    def _bind_pattern(self, pattern: Pattern, ty: Type, node: Match, wrong: set[object]) -> None:
        """Gives the variables of a pattern their types, after an error those of a mistake.

        Of several patterns that are wrong for the same reason, those of the same data type, the first is blamed.
        """
        kind = pattern.constructor.belongs_to if isinstance(pattern, PatternConstructor) else type(pattern)
        try:
            if kind not in wrong:
                self._pattern(pattern, ty, node)
        except TypeCheckError as error:
            self.blame(error, pattern.span or node.span)
            wrong.add(kind)
        if kind in wrong:
            for var in pattern_vars(pattern):
                self.vars.setdefault(var, self.solver.failed())
        self.ask_again(node.span)

    def _pattern(self, root: Pattern, whole: Type, node: Match) -> None:
        todo: list[tuple[Pattern, Type]] = [(root, whole)]
        made: list[Dim] = []
        found: list[tuple[PatternVar, Type]] = []
        while todo:
            pattern, ty = todo.pop()
            site = Site("a pattern of match", pattern.span or node.span, self.typer.scope)
            match pattern:
                case PatternVar():
                    found.append((pattern, ty))
                case PatternTuple(patterns):
                    holes: tuple[Type, ...] = tuple(self.solver.hole() for _ in patterns)
                    self.solver.unify(TupleType(holes), ty, site)
                    todo += reversed(list(zip(patterns, map(self.solver.zonk, holes), strict=True)))
                case PatternConstructor(con, patterns):
                    fields, dims = self._fields(con, ty, site.span)
                    made += dims
                    if len(patterns) != len(fields):
                        message = f"a pattern of {con.name} has {len(patterns)} parts, wanted {len(fields)}"
                        details = [f"{con.name} : {show(self.typer.constructor_type(con))}"]
                        raise TypeCheckError(message, span=site.span, details=details)
                    todo += reversed(list(zip(patterns, fields, strict=True)))
        names = stated_dims([(ty, p.var.ty) for p, ty in found if p.var.ty is not None], made, self.typer.scope)
        made = [names.get(d, d) for d in made if isinstance(d, DimVar)]
        for p, ty in found:
            site = Site("a pattern of match", p.span or node.span, self.typer.scope)
            own = replace_vars(ty, {}, names)
            self.vars[p.var] = own if p.var.ty is None else self._annotated(p.var.ty, own, made, site)

    def _annotated(self, annotation: Type, ty: Type, made: Sequence[Dim], site: Site) -> Type:
        """The type of a variable of a pattern; the annotation knows no more of its new dims than their names."""
        trial = Scope(site.scope.dims)
        found = self.check(ty, annotation, Site(site.what, site.span, trial))
        for key, constraint in trial.constraints.items():
            if any(v in made for v in variables(constraint.a, constraint.b)):
                message = f"{site.what}: a dim of the value is its own, {constraint.b} cannot be taken for granted"
                raise TypeCheckError(message, span=site.span, hint="leave the type out; match_cast checks it")
            site.scope.constraints[key] = constraint
        return found

    def _fields(self, con: Constructor, ty: Type, span: Span | None) -> tuple[tuple[Type, ...], tuple[Dim, ...]]:
        """The types of the parts of a value of type `ty` that `con` made, and the new dims in them, its own."""
        scope = self.typer.scope
        poly = self.typer.constructor_type(con)
        dims: dict[DimVar, Dim] = {
            p: self.solver.existential(p.name, p.hi, scope) for p in poly.type_params if isinstance(p, DimVar)
        }
        data = FuncType(poly.params, poly.ret, tuple(p for p in poly.type_params if isinstance(p, TypeVar)))
        used, _, _ = self.solver.instantiate(data, scope)
        self.solver.unify(used.ret, ty, Site(f"a pattern of {con.name}", span, scope))
        return tuple(replace_vars(self.solver.zonk(f), {}, dims) for f in used.params), tuple(dims.values())

    # ------------------------------------------------------------------ functions

    def open(self, func: Function, name: str = "a function", like: FuncType | None = None) -> Opened:
        """Parameters, own dims and scope of `func`, made on first sight; `name` is what messages call it.

        `like` is the polymorphic type of the variable that it is bound to: what the function leaves out is as there.
        """
        found = self.opened.get(id(func))
        if found is not None:
            return found
        outer = self.typer.scope
        stated, ret, variables = self._stated(func, like)
        params = tuple([self.annotation(t, p.span, f"%{p.name}") for p, t in zip(func.params, stated, strict=True)])
        dims = tuple(v for ty in params for v in dim_vars(ty) if v not in outer.dims and not isinstance(v, DimHole))
        # a dim that is bound outside is not bound again
        own = tuple(dict.fromkeys([*(p for p in variables if p not in outer.dims), *dims]))
        scope = outer.child()
        scope.dims.update(v for v in own if isinstance(v, DimVar))
        scope.constraints.update({(c.a, c.b): c for c in func.attrs.get("constraints", ())})
        scope.given = len(scope.constraints)
        opened_ret = None if ret is None else self.annotation(ret, func.span, "the result")
        found = Opened(params, own, opened_ret, self.solver.hole(f"the result of {name}"), scope)
        self.opened[id(func)] = found
        return found

    @staticmethod
    def _stated(
        func: Function, like: FuncType | None
    ) -> tuple[Sequence[Type | None], Type | None, tuple[TypeVar | DimVar, ...]]:
        """The parameters', the result's type and the type parameters that the program states for a function."""
        own = [p.ty for p in func.params]
        fits = like is not None and like.type_params and len(like.params) == len(own) and not func.type_params
        if not fits or like is None:
            return own, func.ret_type, func.type_params
        return [a or b for a, b in zip(own, like.params, strict=True)], func.ret_type or like.ret, like.type_params

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
        body = self.need(func.body, func)
        site = Site("the result of the function", place(func.body, func), opened.scope)
        ret = opened.ret
        if ret is None:
            ret = self.solver.zonk(body)
            self.solver.unify(ret, opened.recursive, site)
        else:
            self.check(body, ret, site)
        return FuncType(opened.params, ret, opened.type_params)
