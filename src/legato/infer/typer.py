"""The typing rules: what type each kind of expression has, given its children's types.

`Typer` is shared by the builder (children are typed, one node at a time) and by whole-module inference (children may
have holes). A rule that cannot answer yet gives a hole and leaves a problem that is asked again when more is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from legato.arith.expr import Const, clamped
from legato.arith.expr import Var as DimVar
from legato.arith.substitute import replace, variables
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.base.span import Span
from legato.infer.holes import DimHole, Hole, dim_vars, has_failed, has_holes, show
from legato.infer.relation import Asker, ValueOf, ask
from legato.infer.replace import replace_vars
from legato.infer.site import Scope, Site, place
from legato.infer.solver import Solver
from legato.infer.values import Values
from legato.ir.attrs import default_attrs, has_required
from legato.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    If,
    MatchCast,
    RefCreate,
    RefRead,
    RefWrite,
    Shape,
    Tuple,
    TupleGetItem,
    Var,
    callee_name,
)
from legato.ir.op import Op
from legato.ir.types import (
    UNIT,
    Dim,
    FuncType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeData,
    TypeVar,
    scalar_type,
    tensor_type,
    walk,
)

__all__ = ["OpenCall", "Typer", "reuse_dims"]

_BOOL = scalar_type(dt.bool_)


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A question that waits for holes: the operator's relation (None: the projection of a tuple), and what it is of."""

    op: Op | None
    types: Sequence[Type]
    result: Hole
    span: Span | None


def _unknown(arg: int) -> None:
    """The value of an argument of an operator that is not called."""


class Typer:
    """Typing rules over a solver. `type_of` gives the type found for an expression so far."""

    def __init__(self, solver: Solver, type_of: Callable[[Expr], Type | None], types: Sequence[TypeData] = ()) -> None:
        self.solver = solver
        self.scope = Scope()
        self.bound: dict[Var, Expr] = {}
        self.values = Values(self._settled, self.bound)
        self.pending: dict[int, OpenCall] = {}  # questions that are not answered, by id, in order
        self._data_types = {t.header: t for t in types}
        self._type_of = type_of

    def _settled(self, e: Expr) -> Type | None:
        """The type of `e` where nothing in it is open."""
        ty = self._type_of(e)
        if ty is None:
            return None
        ty = self.solver.zonk(ty)
        return None if has_holes(ty) else ty

    def site(self, what: str, node: Expr) -> Site:
        """Where a demand of `node` comes from."""
        return Site(what, node.span, self.scope)

    # ------------------------------------------------------------------ calls

    def op_call(self, node: Call, op: Op, types: Sequence[Type]) -> Type:
        """The type of a call of an operator: its relation's answer, or a hole that a problem will fill."""
        if node.type_args:
            raise TypeCheckError(f"{op.name} takes no type arguments", span=node.span)
        wanted = type(None) if op.attrs is None else op.attrs
        if not isinstance(node.attrs, wanted):
            got = "none" if node.attrs is None else type(node.attrs).__name__
            message = f"{op.name} has attributes of class {wanted.__name__}, got {got}"
            raise TypeCheckError(message, span=node.span, hint="ir.attrs.make_attrs makes them")
        value = self.values.of
        return self._relate(op, node.attrs, types, node.span, node.ty, lambda n: value(node.args[n]))

    def op_value(self, op: Op, span: Span | None) -> FuncType:
        """The type of an operator that is not called: a function of its arguments, which its use decides.

        A function applies it to one argument for each name of its record (a tuple for "*name") with the attributes that
        it has by default. `span` is the place of what uses it.
        """
        if has_required(op):
            hint = "wrap it: fn (…) { " + f"{op.name}(…, attribute=value) " + "}"
            raise TypeCheckError(f"{op.name} has attributes without a default: it is no value", span=span, hint=hint)
        attrs = default_attrs(op)
        params = tuple(self.solver.hole(f"{arg.lstrip('*')} of {op.name}") for arg in op.args)
        return FuncType(params, self._relate(op, attrs, params, span, None, None))

    def _relate(
        self, op: Op, attrs: Any, types: Sequence[Type], span: Span | None, old: Type | None, value: ValueOf | None
    ) -> Type:
        """The answer of an operator's relation; `old` is the type that an earlier inference found. Without `value` the
        operator is no callee: each of its calls would have dims of its own that data decide, so it has none."""
        scope, solver = self.scope, self.solver
        result = solver.hole(f"the result of {op.name}")
        open_call = OpenCall(op, types, result, span)

        def attempt() -> Type | None:
            known = [solver.zonk(t) for t in types]
            asker = Asker(solver, op, span, types, scope, value or _unknown)
            found = ask(asker, op, span, known, attrs)
            if found is not None and asker.made and value is None:
                hint = "wrap it: fn (…) { " + f"{op.name}(…)" + " }"
                raise TypeCheckError(
                    f"data decide the extents of what {op.name} gives: it is no value", span=span, hint=hint
                )
            if found is None:
                if any(map(has_failed, known)):
                    return solver.failed()
                self._wait(known, again)
            elif asker.made and old is not None:
                found = reuse_dims(found, old, asker.made, scope)
            return found

        def again() -> None:
            if id(open_call) not in self.pending:
                return
            try:
                found = attempt()
                if found is not None:
                    del self.pending[id(open_call)]
                    solver.unify(found, result, Site(f"{op.name}: the result", span, scope))
            except TypeCheckError:
                self.pending.pop(id(open_call), None)
                solver.unify(solver.failed(), result, Site(op.name, span, scope))
                raise

        found = attempt()
        if found is not None:
            return found
        self.pending[id(open_call)] = open_call
        return result

    def _wait(self, types: Sequence[Type], problem: Callable[[], None]) -> None:
        for ty in types:
            for part in walk(ty):
                if isinstance(part, Hole):
                    part.watchers.append(problem)
                elif isinstance(part, TensorType):
                    for v in variables(*part.shape):
                        if isinstance(v, DimHole):
                            v.watchers.append(problem)

    def apply(self, node: Call, callee: Type, types: Sequence[Type]) -> tuple[Type, tuple[Type | Dim, ...]]:
        """The type of a call of a function, and what its type parameters stand for."""
        callee = self.solver.resolve(callee)
        name = callee_name(node.op)
        if isinstance(callee, Hole):
            if callee.failed:
                return callee, ()
            result = self.solver.hole(f"the result of {name}")
            self.solver.unify(callee, FuncType(tuple(types), result), self.site(f"the call of {name}", node))
            return result, ()
        if not isinstance(callee, FuncType):
            message = f"call of {name}, which is not a function"
            raise TypeCheckError(message, span=node.span, details=[f"{name} : {show(self.solver.zonk(callee))}"])
        if len(callee.params) != len(types):
            message = f"call of {name}: got {len(types)} arguments, wanted {len(callee.params)}"
            raise TypeCheckError(message, span=node.span, details=[f"{name} : {show(self.solver.zonk(callee))}"])
        self._check_type_args(node, callee, name)
        used, args, made = self.solver.instantiate(callee, self.scope, node.type_args)
        if made and node.ty is not None:
            used = FuncType(used.params, reuse_dims(used.ret, node.ty, made, self.scope))
        start = self.solver.mark()
        for n, (got, wanted) in enumerate(zip(types, used.params, strict=True)):
            self.solver.unify(got, wanted, Site(f"argument {n + 1} of {name}", place(node.args[n], node), self.scope))
        for found, given in zip(args, node.type_args, strict=False):
            if isinstance(found, Dim) and isinstance(given, Dim):
                self.solver.same(found, given, self.site(f"a type argument of {name}", node))
        if node.type_args:
            self.solver.run()
        if self.solver.mark() > start and not any(has_holes(self.solver.zonk(t)) for t in types):
            self.solver.settle(start)
        return self.solver.zonk(used.ret), args

    def _check_type_args(self, node: Call, callee: FuncType, name: str) -> None:
        """Type arguments are optional; where there are some, there is one for each parameter, of its kind."""
        if not node.type_args:
            return
        wanted = callee.type_params
        count = sum(isinstance(p, TypeVar) for p in wanted) if isinstance(node.op, Constructor) else len(wanted)
        if len(node.type_args) != count:
            message = f"call of {name}: got {len(node.type_args)} type arguments, wanted {count}"
            raise TypeCheckError(message, span=node.span, details=[f"{name} : {show(self.solver.zonk(callee))}"])
        for param, arg in zip(wanted, node.type_args, strict=False):
            if isinstance(param, TypeVar) != isinstance(arg, Type):
                kinds = ("a type", "a dim") if isinstance(param, TypeVar) else ("a dim", "a type")
                message = f"call of {name}: type parameter {param.name} is {kinds[0]}, got {kinds[1]}, {arg}"
                raise TypeCheckError(message, span=node.span)

    def constructor_type(self, con: Constructor) -> FuncType:
        """The function type of a data type's constructor, polymorphic in its type variables and its inputs' dims."""
        data = self._data_types.get(con.belongs_to)
        type_vars = () if data is None else data.type_vars
        result: Type = TypeCall(con.belongs_to, type_vars) if type_vars else con.belongs_to
        own = dict.fromkeys(v for ty in con.inputs for v in dim_vars(ty))  # each value has dims of its own there
        return FuncType(con.inputs, result, (*type_vars, *own))

    # ------------------------------------------------------------------ the other nodes

    def need(self, e: Expr, user: Expr) -> Type:
        """The type of `e`, an operand of `user`; a hole where nothing is known. Ask once: operators are typed by it."""
        if isinstance(e, Op):
            return self.op_value(e, user.span)
        ty = self._type_of(e)
        return self.solver.hole() if ty is None else ty

    def simple(self, node: Expr) -> Type | None:
        """The type of a node that its children's types decide; None for the kinds that bind or call."""
        solver = self.solver
        match node:
            case Constant():
                return node.ty or tensor_type(node.data.shape, dt.dtype(node.data.dtype))
            case Tuple():
                return TupleType(tuple([self.need(f, node) for f in node.fields]))
            case TupleGetItem():
                return self._field(node.index, self.need(node.value, node), self.site(f".{node.index}", node))
            case RefCreate():
                return RefType(self.need(node.value, node))
            case RefRead():
                inner = solver.hole("the value of the reference")
                self._reference(node.ref, inner, node, "ref_read")
                return solver.zonk(inner)
            case RefWrite():
                self._reference(node.ref, self.need(node.value, node), node, "ref_write")
                return UNIT
            case Shape():
                return ShapeType(node.dims)
            case MatchCast():
                return self._match_cast(node)
            case If():
                site = Site("the condition of if", place(node.cond, node), self.scope)
                solver.unify(self.need(node.cond, node), _BOOL, site)
                return self.join((node.then, node.orelse), node, "the branches of if")
            case _:
                return None

    def _reference(self, ref: Expr, value: Type, node: Expr, what: str) -> None:
        """Requires `ref` to be a reference to a `value`."""
        ty = self.solver.resolve(self.need(ref, node))
        if isinstance(ty, RefType):
            self.solver.unify(value, ty.value, self.site(what, node))
        elif isinstance(ty, Hole):
            self.solver.unify(ty, RefType(value), self.site(what, node))
        else:
            message = f"{what} of something that is not a reference"
            raise TypeCheckError(message, span=node.span, details=[f"got : {show(self.solver.zonk(ty))}"])

    def _field(self, index: int, ty: Type, site: Site) -> Type:
        ty = self.solver.resolve(ty)
        if isinstance(ty, Hole):
            return ty if ty.failed else self._field_later(index, ty, site)
        if not isinstance(ty, TupleType):
            message = f".{index} of something that is not a tuple"
            raise TypeCheckError(message, span=site.span, details=[f"got : {show(self.solver.zonk(ty))}"])
        if not 0 <= index < len(ty.fields):
            message = f"a tuple of {len(ty.fields)} fields has no field {index}"
            raise TypeCheckError(message, span=site.span, details=[f"got : {show(self.solver.zonk(ty))}"])
        return ty.fields[index]

    def _field_later(self, index: int, tuple_hole: Hole, site: Site) -> Type:
        result = self.solver.hole(f"field {index} of a tuple")
        open_call = OpenCall(None, (tuple_hole,), result, site.span)
        self.pending[id(open_call)] = open_call

        def again() -> None:
            ty = self.solver.resolve(tuple_hole)
            if isinstance(ty, Hole) and not ty.failed:
                ty.watchers.append(again)
            elif self.pending.pop(id(open_call), None) is not None:
                self.solver.unify(self._field(index, ty, site), result, site)

        tuple_hole.watchers.append(again)
        return result

    def _match_cast(self, node: MatchCast) -> Type:
        """The target; its dims that are new here are bound by the cast, the others are checked when it runs."""
        target = self.solver.open(node.target)
        new = [v for v in dim_vars(target) if v not in self.scope.dims and not isinstance(v, DimHole)]
        holes: dict[DimVar, Dim] = {v: self.solver.dim_hole(v.name) for v in new}
        checked = Scope(self.scope.dims)  # equalities that the cast itself checks
        shadow = replace_vars(target, {}, holes)
        got = self.need(node.value, node)
        self.solver.unify(got, shadow, Site("match_cast", node.span, checked))
        for part, wanted in _hidden(self.solver.zonk(got), shadow):
            self.solver.unify(part, wanted, Site("match_cast", node.span, self.scope))
        for v, hole in holes.items():
            site = Site(f"match_cast: {v.name}, in its range", node.span, self.scope)
            for bound in clamped(hole, v):
                self.solver.same(bound, hole, site)
        self.scope.dims.update(holes)
        return target

    def join(self, branches: Sequence[Expr], node: Expr, what: str) -> Type:
        """The common type of branches: equal, except that dims which may differ become one new unknown dim."""
        made: list[Dim] = []
        pairs = [(self.need(e, node), e) for e in branches]
        first, *rest = [(t, e) for t, e in pairs if not self._is_failed(t)] or pairs
        result = self.solver.zonk(first[0])
        for ty, branch in rest:
            site = Site(what, place(branch, node), self.scope)
            result = self._join(self.solver.zonk(ty), result, site, made)
        return reuse_dims(result, node.ty, made, self.scope) if made and node.ty is not None else result

    def _is_failed(self, ty: Type) -> bool:
        ty = self.solver.resolve(ty)
        return isinstance(ty, Hole) and ty.failed

    def _join(self, a: Type, b: Type, site: Site, made: list[Dim]) -> Type:
        if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
            return TupleType(tuple(self._join(x, y, site, made) for x, y in zip(a.fields, b.fields, strict=True)))
        if isinstance(a, FuncType) and isinstance(b, FuncType) and not a.type_params:
            return self.solver.unify(b, a, site)  # the other may be polymorphic: the branches are one instance of it
        if not (isinstance(a, TensorType) and isinstance(b, TensorType)) or a.rank != b.rank or a.dtype != b.dtype:
            return self.solver.unify(a, b, site)
        pairs = zip(a.shape, b.shape, strict=True)
        return TensorType(tuple(self._join_dim(x, y, site, made) for x, y in pairs), a.dtype)

    def _join_dim(self, a: Dim, b: Dim, site: Site, made: list[Dim]) -> Dim:
        trial = Scope(site.scope.dims)
        try:
            better = self.solver.same(a, b, Site(site.what, site.span, trial))
        except TypeCheckError:
            if isinstance(a, Const) and isinstance(b, Const):
                raise
        else:
            if not trial.constraints:
                return better
        new = self.solver.existential("d", None, site.scope)
        made.append(new)
        return new


def reuse_dims(ty: Type, old: Type, made: Sequence[Dim], scope: Scope) -> Type:
    """`ty` with the new dims `made` called as at the same place of `old`, the type from an earlier inference."""
    found = stated_dims([(ty, old)], made, scope)
    return replace_vars(ty, {}, found) if found else ty


def stated_dims(pairs: Iterable[tuple[Type, Type]], made: Sequence[Dim], scope: Scope) -> dict[DimVar, Dim]:
    """What the new dims `made` in the first type of each pair are called in the second, at the same place."""
    found: dict[DimVar, Dim] = {}
    wanted = set(made)
    for d, name in (pair for ty, old in pairs for pair in _pair_dims(ty, old)):
        if d in wanted and d not in found and name not in scope.dims and _is_within(d, name):
            found[d] = name
            scope.dims.add(name)
    return found


def _is_within(d: DimVar, name: DimVar) -> bool:
    """Whether the range of `name` says no more than that of `d`."""
    is_low = name.lo is None or (d.lo is not None and d.lo >= name.lo)
    return is_low and (name.hi is None or (d.hi is not None and d.hi <= name.hi))


def _pair_dims(ty: Type, old: Type) -> Iterator[tuple[DimVar, DimVar]]:
    """The dims at the same places of two types: variables, also those within the same arithmetic."""
    if isinstance(ty, TensorType) and isinstance(old, TensorType) and ty.rank == old.rank:
        for d, o in zip(ty.shape, old.shape, strict=True):
            yield from _pair_variables(d, o)
        return
    kids, olds = ty.children(), old.children()
    if type(ty) is type(old) and len(kids) == len(olds):
        for kid, old_kid in zip(kids, olds, strict=True):
            yield from _pair_dims(kid, old_kid)


def _pair_variables(d: Dim, old: Dim) -> Iterator[tuple[DimVar, DimVar]]:
    """The variables of two dims of which one is the other with other variables."""
    pairs = list(zip(variables(d), variables(old), strict=False))
    if replace(d, dict(pairs)) is old:
        yield from pairs


def _hidden(a: Type, b: Type) -> Iterator[tuple[Type, Type]]:
    """Parts of two types of one form whose values a cast does not look at: those in data, cells and functions."""
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        for x, y in zip(a.fields, b.fields, strict=False):
            yield from _hidden(x, y)
    elif not isinstance(a, TensorType | ShapeType):
        yield a, b
