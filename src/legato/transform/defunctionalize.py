"""Functions that are values become values of data types, and calls of them a match (Reynolds 1972).

    let %f = fn (%x) { @main_f(%n, %x) };          let %f = main_f(%n);
    let %g = if (%c) { %f } else { %h };     =>    let %g = if (%c) { %f } else { %h };
    %g(1)                                          @apply(%g, 1)

    type Fn { main_f(int32), main_h }
    def @apply(%f: Fn, %a: int32) { match (%f) { main_f(%n) => @main_f(%n, %a), main_h => @main_h(%a) } }

There is a data type for every type of functions, dims aside (see `_function_types`). A constructor has the dims of what
its function holds for its own. What @main takes and gives cannot be functions: there are none outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.base.errors import UnsupportedError
from legato.base.node import post_order as nodes
from legato.ir.atoms import is_primitive
from legato.ir.clauses import Clause, Pattern, PatternConstructor, PatternTuple, PatternVar
from legato.ir.dim_values import dim_values
from legato.ir.expr import Call, Constructor, Expr, Function, GlobalVar, If, Match, MatchCast, Var
from legato.ir.module import Module
from legato.ir.op import Op
from legato.ir.scope import binders, pattern_vars, post_order
from legato.ir.types import Dim, FuncType, GlobalTypeVar, TupleType, Type, TypeData
from legato.transform._closures import Names, closure_call
from legato.transform._copy import Copy
from legato.transform._decision import fields_of
from legato.transform._external import is_own
from legato.transform._function_types import FunctionTypes, TypeClass, dims_in
from legato.transform._types import bound_dims
from legato.transform.lambda_lift import LambdaLift
from legato.transform.pass_ import Pass
from legato.transform.specialize import Specialize, is_polymorphic

__all__ = ["Defunctionalize"]


@dataclass(frozen=True, slots=True)
class Defunctionalize(Pass):
    """Module → module without functions as values."""

    name = "defunctionalize"

    def __call__(self, mod: Module) -> Module:
        mod = LambdaLift()(mod)
        if is_polymorphic(mod):
            mod = LambdaLift()(Specialize()(mod))  # polymorphic constructors that were values are functions now
        known = FunctionTypes(mod, Names(mod))
        work = [gv for gv, func in mod.graph_functions() if is_own(func) and _has_work(func, known)]
        if not work:
            return mod
        _require_first_order_main(mod, known)
        return _Defunctionalizer(mod, known).run(work)


def _has_work(func: Function, known: FunctionTypes) -> bool:
    """True if a node of `func` is a function, or may hold one; all types are made known."""
    seen: dict[int, Type] = {}
    calls: list[FuncType] = []
    for node in post_order(func):
        if isinstance(node, GlobalVar | Op | Constructor) or node is func or is_primitive(node):
            continue
        if isinstance(node, Call) and isinstance(node.op, Var) and isinstance(node.op.ty, FuncType):
            calls.append(node.op.ty)
        for ty in (node.ty, *(v.ty for scope in binders(node) for v in scope)):
            if ty is not None:
                seen[id(ty)] = ty
    seen.update((id(p.ty), p.ty) for p in func.params if p.ty is not None)
    found = [ty for ty in seen.values() if known.holds_function(ty)]
    for ty in found:
        known.type(ty)
    dims = _known_dims(func) if calls else set()
    for ty in calls:
        known.called(ty, dims)
    return bool(found)


def _known_dims(func: Function) -> set[DimVar]:
    """The dims in `func` that parameters, patterns, casts, and results of calls of functions of the module tell."""
    found = {d for d in func.type_params if isinstance(d, DimVar)}
    for node in nodes([func.body], lambda n: not isinstance(n, Function)):
        match node:
            case Call(op=GlobalVar() | Constructor()) if node.ty is not None:
                found |= bound_dims([node.ty])
            case MatchCast():
                found |= bound_dims([node.target])
            case If() if node.ty is not None:
                found |= _joined(node.ty, (node.then, node.orelse))
            case Match(_, clauses) if node.ty is not None:
                found |= _joined(node.ty, [c.body for c in clauses])
                found |= bound_dims(v.ty for c in clauses for v in pattern_vars(c.pattern) if v.ty is not None)
    return found


def _joined(ty: Type, branches: Iterable[Expr]) -> set[DimVar]:
    """The dims that a result has and none of the branches that may give it."""
    return bound_dims([ty]) - bound_dims(b.ty for b in branches if b.ty is not None)


def _require_first_order_main(mod: Module, known: FunctionTypes) -> None:
    for gv, func in mod.graph_functions():
        if gv.name != "main":
            continue
        details = [f"%{p.name} : {p.ty}" for p in func.params if known.holds_function(p.ty)]
        if known.holds_function(func.body.ty):
            details.append(f"result : {func.body.ty}")
        if details:
            raise UnsupportedError(
                "@main takes or gives functions, which compiled code cannot pass to or from Python",
                span=func.span,
                details=details,
                hint="call them inside, or let @main take and give what they take and give",
            )


class _Defunctionalizer:
    def __init__(self, mod: Module, known: FunctionTypes) -> None:
        self._mod = mod
        self._known = known

    def run(self, work: Iterable[GlobalVar]) -> Module:
        """The module with data types for function types; `work` are the functions that have some."""
        functions = dict(self._mod.functions)
        for gv in work:
            func = functions[gv]
            assert isinstance(func, Function)
            functions[gv] = _rewritten(func, self._mod, self._known)
        done: list[TypeClass] = []
        while len(done) < len(self._known.classes):  # what one class takes may be functions of another
            found = list(self._known.classes.values())[len(done)]
            self._known.applied(found)
            if not found.constructors:
                self._known.constructor_of(found, None, ())
            done.append(found)
        types = {**self._known.untouched(), **self._known.types}
        types.update((f.header, TypeData(f.header, (), tuple(f.constructors.values()))) for f in done)
        functions.update((f.apply, self._apply(f, types)) for f in done)
        return replace(self._mod, functions=functions, types=types)

    def _apply(self, found: TypeClass, types: Mapping[GlobalTypeVar, TypeData]) -> Function:
        """The function that applies the functions of a class."""
        ty = self._known.applied(found)
        func = Var("f", ty=found.header)
        params = tuple(Var(f"a{n}", ty=p) for n, p in enumerate(ty.params[1:]))
        clauses = []
        for gv, con in found.constructors.items():
            held = tuple(Var(f"held{n}", ty=t) for n, t in enumerate(fields_of(con, found.header, types)))
            call = self._call(gv, (*held, *params), ty) if gv is not None else _again(found, (func, *params), ty)
            clauses.append(Clause(PatternConstructor(con, tuple(map(PatternVar, held))), call))
        body = Match(func, tuple(clauses), ty=ty.ret)
        return Function((func, *params), body, ty.ret, ty.type_params, ty=ty)

    def _call(self, gv: GlobalVar, args: tuple[Var, ...], applied: FuncType) -> Call:
        """The call of a function of a class, with what its closure holds and what is applied to."""
        func = self._mod.functions[gv]
        assert isinstance(func, Function)
        assert isinstance(func.ty, FuncType)
        own = self._known.signature(func.ty)
        held = len(args) - len(applied.params) + 1
        types = tuple(a.ty for a in args if a.ty is not None)
        # what is applied to says the dims rather than what is held: they are those of the function that applies
        wanted = [p for p in own.type_params if isinstance(p, DimVar)]
        found: dict[DimVar, Dim] = {}
        for got, told in (
            (types[held:], own.params[held:]), ((applied.ret,), (own.ret,)), (types[:held], own.params[:held])
        ):  # fmt: skip
            more = dim_values(TupleType(got), TupleType(told), wanted)
            if got == (applied.ret,):  # dims that the result brings say nothing yet
                more = {p: d for p, d in more.items() if set(variables(d)).issubset(applied.type_params)}
            found = {**more, **found}
        dims = tuple(found[p] for p in own.type_params if isinstance(p, DimVar))
        return Call(gv.with_type(own), args, None, dims, ty=applied.ret, span=func.span)


def _again(found: TypeClass, args: tuple[Var, ...], ty: FuncType) -> Call:
    """What the one value of a class without functions does, which nothing makes: it has every type."""
    return Call(found.apply.with_type(ty), args, None, ty.type_params, ty=ty.ret)


def _rewritten(func: Function, mod: Module, known: FunctionTypes) -> Function:
    """`func` without functions as values."""
    copy = _Rewriter(mod, known)
    params = tuple(copy.bind(p) for p in func.params)
    assert isinstance(func.ty, FuncType)
    ty = known.signature(func.ty)
    return replace(func, params=params, body=copy.expr(func.body), ret_type=ty.ret, ty=ty)


class _Rewriter(Copy):
    """Copies an expression without functions as values."""

    def __init__(self, mod: Module, known: FunctionTypes) -> None:
        super().__init__()
        self._mod = mod
        self._known = known

    def type(self, ty: Type) -> Type:
        """`ty` with data types for function types."""
        return self._known.type(ty)

    def node(self, node: Expr, kids: tuple[Expr, ...]) -> Expr:
        """The new node for one whose operands are copied."""
        match node:
            case GlobalVar() if isinstance(node.ty, FuncType):
                return node.with_type(self._known.signature(node.ty))
            case Function():
                return node if is_primitive(node) else self._closure(node)
            case Call(op=Constructor() as con):
                return super().node(node, (self._known.constructor(con, node.ty), *kids[1:]))
            case Call() if not isinstance(node.op, Op | GlobalVar) and not is_primitive(node.op):
                return self._applied(node, kids)
            case Match(data, clauses):
                pairs = zip(clauses, kids[1:], strict=True)
                new = tuple(Clause(self._pattern(c.pattern, data.ty), body) for c, body in pairs)
                return replace(node, data=kids[0], clauses=new, ty=None if node.ty is None else self.type(node.ty))
            case _:
                return super().node(node, kids)

    def _closure(self, func: Function) -> Call:
        """The value of a data type for a closure."""
        call = closure_call(func)
        assert call is not None
        assert isinstance(call.op, GlobalVar)
        assert isinstance(func.ty, FuncType)
        found = self._known.of(func.ty)
        held = call.args[: len(call.args) - len(func.params)]
        callee = self._mod.functions[call.op]
        assert isinstance(callee, Function)
        inputs = [p.ty for p in callee.params[: len(held)] if p.ty is not None]
        con = self._known.constructor_of(found, call.op, inputs)
        values = tuple(self.vars.get(h, h) if isinstance(h, Var) else h for h in held)
        return Call(con, values, ty=found.header, span=func.span)

    def _applied(self, call: Call, kids: tuple[Expr, ...]) -> Call:
        """A call of a function that is a value."""
        assert isinstance(call.op.ty, FuncType)
        found = self._known.of(call.op.ty)
        ty = self._known.applied(found)
        dims = tuple(d for d, is_param in zip(dims_in(call.op.ty), found.parameters, strict=True) if is_param)
        result = None if call.ty is None else self.type(call.ty)
        return Call(found.apply.with_type(ty), kids, None, dims, ty=result, span=call.span)

    def _pattern(self, pattern: Pattern, ty: Type | None) -> Pattern:
        """A pattern of values that were of type `ty` (patterns nest shallowly)."""
        match pattern:
            case PatternConstructor(con, parts):
                fields = fields_of(con, ty, self._mod.types)
                new = tuple(self._pattern(p, f) for p, f in zip(parts, fields, strict=True))
                return replace(pattern, constructor=self._known.constructor(con, ty), patterns=new)
            case PatternTuple(parts) if isinstance(ty, TupleType):
                return replace(pattern, patterns=tuple(map(self._pattern, parts, ty.fields)))
            case _:
                return self.pattern(pattern)
