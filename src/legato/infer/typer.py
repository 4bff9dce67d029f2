"""The typing rules: what type each kind of expression has, given its children's types.

`Typer` is shared by the builder (children are typed, one node at a time) and by whole-module inference (children may
have holes). A rule that cannot answer yet gives a hole and leaves a problem that is asked again when more is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from legato.arith.expr import Var as DimVar
from legato.arith.substitute import variables
from legato.base import dtype as dt
from legato.base.errors import TypeCheckError
from legato.infer.holes import DimHole, Hole, has_holes, show
from legato.infer.relation import Asker, ask
from legato.infer.solver import Scope, Site, Solver, replace_vars
from legato.infer.values import Values
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
    scalar_type,
    tensor_type,
    walk,
)

__all__ = ["Typer"]

_BOOL = scalar_type(dt.bool_)


class Typer:
    """Typing rules over a solver. `type_of` gives the type found for an expression so far."""

    def __init__(self, solver: Solver, type_of: Callable[[Expr], Type | None], types: Sequence[TypeData] = ()) -> None:
        self.solver = solver
        self.scope = Scope()
        self.bound: dict[Var, Expr] = {}
        self.values = Values(self._settled, self.bound)
        self.pending: dict[int, Expr] = {}  # nodes whose problem is not solved, in order
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
        scope, old = self.scope, node.ty

        def attempt() -> Type | None:
            known = [self.solver.zonk(t) for t in types]
            asker = Asker(self.solver, op, node, known, scope, lambda n: self.values.of(node.args[n]))
            found = ask(asker, op, node, known)
            if found is None:
                self._wait(known, again)
            elif asker.made and old is not None:
                found = reuse_dims(found, old, asker.made, scope)
            return found

        def again() -> None:
            if id(node) not in self.pending:
                return
            found = attempt()
            if found is not None:
                del self.pending[id(node)]
                self.solver.unify(result, found, Site(f"{op.name}: the result", node.span, scope))

        found = attempt()
        if found is not None:
            return found
        self.pending[id(node)] = node
        result = self.solver.hole(op.name)
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
        if isinstance(callee, Hole):
            result = self.solver.hole()
            self.solver.unify(callee, FuncType(tuple(types), result), self.site("call", node))
            return result, ()
        if not isinstance(callee, FuncType):
            message = "call of something that is not a function"
            raise TypeCheckError(message, span=node.span, details=[f"got : {show(self.solver.zonk(callee))}"])
        name = getattr(node.op, "name", "the function")
        if len(callee.params) != len(types):
            message = f"call of {name}: got {len(types)} arguments, wanted {len(callee.params)}"
            raise TypeCheckError(message, span=node.span, details=[f"{name} : {show(self.solver.zonk(callee))}"])
        used, args, made = self.solver.instantiate(callee, self.scope, node.type_args)
        if made and node.ty is not None:
            used = FuncType(used.params, reuse_dims(used.ret, node.ty, made, self.scope))
        for n, (got, wanted) in enumerate(zip(types, used.params, strict=True)):
            self.solver.unify(got, wanted, self.site(f"argument {n + 1} of {name}", node))
        return self.solver.zonk(used.ret), args

    def constructor_type(self, con: Constructor) -> FuncType:
        """The function type of a data type's constructor."""
        data = self._data_types.get(con.belongs_to)
        type_vars = () if data is None else data.type_vars
        result: Type = TypeCall(con.belongs_to, type_vars) if type_vars else con.belongs_to
        return FuncType(con.inputs, result, type_vars)

    # ------------------------------------------------------------------ the other nodes

    def simple(self, node: Expr) -> Type | None:
        """The type of a node that its children's types decide; None for the kinds that bind or call."""
        solver, of = self.solver, self._need
        match node:
            case Constant():
                return node.ty or tensor_type(node.data.shape, dt.dtype(node.data.dtype))
            case Tuple():
                return TupleType(tuple(of(f) for f in node.fields))
            case TupleGetItem():
                return self._field(node)
            case RefCreate():
                return RefType(of(node.value))
            case RefRead():
                inner = solver.hole()
                solver.unify(of(node.ref), RefType(inner), self.site("ref_read", node))
                return solver.zonk(inner)
            case RefWrite():
                solver.unify(of(node.ref), RefType(of(node.value)), self.site("ref_write", node))
                return UNIT
            case Shape():
                return ShapeType(node.dims)
            case MatchCast():
                return self._match_cast(node)
            case If():
                solver.unify(of(node.cond), _BOOL, self.site("the condition of if", node))
                return self.join([of(node.then), of(node.orelse)], node, "the branches of if")
            case _:
                return None

    def _need(self, e: Expr) -> Type:
        ty = self._type_of(e)
        return self.solver.hole() if ty is None else ty

    def _field(self, node: TupleGetItem) -> Type:
        ty = self.solver.resolve(self._need(node.value))
        if isinstance(ty, Hole):
            return self._field_later(node, ty)
        if not isinstance(ty, TupleType):
            message = f".{node.index} of something that is not a tuple"
            raise TypeCheckError(message, span=node.span, details=[f"got : {show(self.solver.zonk(ty))}"])
        if not 0 <= node.index < len(ty.fields):
            message = f"a tuple of {len(ty.fields)} fields has no field {node.index}"
            raise TypeCheckError(message, span=node.span, details=[f"got : {show(self.solver.zonk(ty))}"])
        return ty.fields[node.index]

    def _field_later(self, node: TupleGetItem, tuple_hole: Hole) -> Type:
        result, scope = self.solver.hole(), self.scope
        self.pending[id(node)] = node

        def again() -> None:
            if id(node) not in self.pending:
                return
            ty = self.solver.resolve(tuple_hole)
            if isinstance(ty, Hole):
                ty.watchers.append(again)
                return
            del self.pending[id(node)]
            self.solver.unify(result, self._field(node), Site(f".{node.index}", node.span, scope))

        tuple_hole.watchers.append(again)
        return result

    def _match_cast(self, node: MatchCast) -> Type:
        """The target; its dims that are new here are bound by the cast, the others are checked when it runs."""
        target = self.solver.open(node.target)
        holes: dict[DimVar, Dim] = {}
        for part in walk(target):
            for d in part.shape if isinstance(part, TensorType) else ():
                for v in variables(d):
                    if v not in self.scope.dims and not isinstance(v, DimHole):
                        holes[v] = self.solver.dim_hole(v.name)
        checked = Scope(self.scope.dims)  # equalities that the cast itself checks
        shadow = replace_vars(target, {}, holes)
        self.solver.unify(self._need(node.value), shadow, Site("match_cast", node.span, checked))
        self.scope.dims.update(holes)
        return target

    def join(self, types: Sequence[Type], node: Expr, what: str) -> Type:
        """The common type of branches: equal, except that dims which may differ become one new unknown dim."""
        made: list[Dim] = []
        result = self.solver.zonk(types[0])
        for ty in types[1:]:
            result = self._join(result, self.solver.zonk(ty), self.site(what, node), made)
        return reuse_dims(result, node.ty, made, self.scope) if made and node.ty is not None else result

    def _join(self, a: Type, b: Type, site: Site, made: list[Dim]) -> Type:
        if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.fields) == len(b.fields):
            return TupleType(tuple(self._join(x, y, site, made) for x, y in zip(a.fields, b.fields, strict=True)))
        if not (isinstance(a, TensorType) and isinstance(b, TensorType)) or a.rank != b.rank or a.dtype != b.dtype:
            return self.solver.unify(a, b, site)
        pairs = zip(a.shape, b.shape, strict=True)
        return TensorType(tuple(self._join_dim(x, y, site, made) for x, y in pairs), a.dtype)

    def _join_dim(self, a: Dim, b: Dim, site: Site, made: list[Dim]) -> Dim:
        trial = Scope(site.scope.dims)
        better = self.solver.same(a, b, Site(site.what, site.span, trial))
        if not trial.constraints:
            return better
        new = self.solver.existential("d", None, site.scope)
        made.append(new)
        return new


def reuse_dims(ty: Type, old: Type, made: Sequence[Dim], scope: Scope) -> Type:
    """`ty` with the new dims `made` called as at the same place of `old`, the type from an earlier inference."""
    found: dict[DimVar, Dim] = {}
    _pair_dims(ty, old, set(made), found)
    scope.dims.update(d for d in found.values() if isinstance(d, DimVar))
    return replace_vars(ty, {}, found) if found else ty


def _pair_dims(ty: Type, old: Type, made: set[Dim], found: dict[DimVar, Dim]) -> None:
    if isinstance(ty, TensorType) and isinstance(old, TensorType) and ty.rank == old.rank:
        for d, o in zip(ty.shape, old.shape, strict=True):
            if isinstance(d, DimVar) and d in made and isinstance(o, DimVar):
                found.setdefault(d, o)
        return
    kids, olds = ty.children(), old.children()
    if type(ty) is type(old) and len(kids) == len(olds):
        for kid, old_kid in zip(kids, olds, strict=True):
            _pair_dims(kid, old_kid, made, found)
