"""Unification of types and dims, with a queue of problems that are asked again when a hole they wait for is filled.

Algorithm J of Milner (1978) with mutable cells for the holes. Dims unify by equality: a hole is filled, provably equal
dims are equal, provably different ones are an error, and what cannot be decided becomes a constraint of the function.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from legato.arith.expr import Const, Var, fresh
from legato.arith.linear import solve
from legato.arith.prove import provably_different, prove_equal
from legato.arith.simplify import simplify
from legato.arith.substitute import replace, substitute, variables
from legato.base.errors import TypeCheckError
from legato.base.span import Span
from legato.infer.holes import DimHole, Hole, dim_vars, show
from legato.ir.constraint import Constraint
from legato.ir.types import (
    Dim,
    FuncType,
    HoleType,
    RefType,
    ShapeType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)

__all__ = ["Scope", "Site", "Solver"]


@dataclass(slots=True)
class Scope:
    """A function being typed: the dim variables bound in it or around it, and the equalities it must check."""

    dims: set[Var] = field(default_factory=set)
    constraints: dict[tuple[Dim, Dim], Constraint] = field(default_factory=dict)

    def child(self) -> Scope:
        """The scope of a function inside this one."""
        return Scope(set(self.dims))


@dataclass(frozen=True, slots=True)
class Site:
    """Where a demand comes from: what is being checked, its place, and the function that it is part of."""

    what: str
    span: Span | None
    scope: Scope


class Solver:
    """The state of one inference."""

    def __init__(self) -> None:
        self._dim_holes = False
        self._queue: deque[Callable[[], None]] = deque()

    # ------------------------------------------------------------------ holes

    def hole(self, name: str = "_") -> Hole:
        """A new type hole."""
        return Hole(name)

    def dim_hole(self, name: str = "_") -> DimHole:
        """A new dim hole."""
        self._dim_holes = True
        return DimHole(name)

    def run(self) -> None:
        """Asks every problem whose holes have been filled, until nothing moves."""
        while self._queue:
            self._queue.popleft()()

    def ask(self, problem: Callable[[], None]) -> None:
        """Puts `problem` in the queue."""
        self._queue.append(problem)

    def resolve(self, ty: Type) -> Type:
        """`ty`, or what its hole was filled with; holes deeper inside are left alone."""
        while isinstance(ty, Hole) and ty.solution is not None:
            ty = ty.solution
        return ty

    def zonk(self, ty: Type) -> Type:
        """`ty` with every filled hole replaced."""
        ty = self.resolve(ty)
        if isinstance(ty, TensorType):
            if not self._dim_holes:
                return ty
            shape = tuple([self.dim(d) for d in ty.shape])
            return ty if shape == ty.shape else TensorType(shape, ty.dtype)
        if isinstance(ty, ShapeType):
            return ty if ty.dims is None else ShapeType(tuple(self.dim(d) for d in ty.dims))
        old = ty.children()
        if not old:
            return ty
        kids = tuple(self.zonk(k) for k in old)
        return ty if all(a is b for a, b in zip(old, kids, strict=True)) else ty.with_children(kids)

    def dim(self, d: Dim) -> Dim:
        """`d` with every filled hole replaced."""
        if isinstance(d, DimHole):
            return d if d.solution is None else self.dim(d.solution)
        if not self._dim_holes or not d.children():
            return d
        known: dict[Dim, Dim] = {
            v: self.dim(v) for v in variables(d) if isinstance(v, DimHole) and v.solution is not None
        }
        return simplify(replace(d, known)) if known else d

    def open(self, ty: Type | None, name: str = "_") -> Type:
        """An annotation as a type: `_` and a missing annotation become holes."""
        if ty is None or isinstance(ty, HoleType):
            return Hole(name)
        kids = ty.children()
        return ty.with_children(tuple(self.open(k, name) for k in kids)) if kids else ty

    # ------------------------------------------------------------------ polymorphism

    def instantiate(
        self, ty: FuncType, scope: Scope, type_args: Iterable[Type | Dim] = ()
    ) -> tuple[FuncType, tuple[Type | Dim, ...], tuple[Dim, ...]]:
        """`ty` without type parameters: they become holes (or `type_args`), dims that only its result names new dims.

        Returns the type, what the type parameters became, and the new dims.
        """
        given = list(type_args)
        made: list[Dim] = []
        types: dict[TypeVar, Type] = {}
        dims: dict[Var, Dim] = {}
        for n, p in enumerate(ty.type_params):
            arg = given[n] if n < len(given) else None
            if isinstance(p, TypeVar):
                types[p] = arg if isinstance(arg, Type) else Hole(p.name)
            else:
                dims[p] = arg if isinstance(arg, Dim) else self.dim_hole(p.name)
        for v in dim_vars(ty.ret):
            if v not in dims and v not in scope.dims and not isinstance(v, DimHole):
                dims[v] = self.existential(v.name, v.hi, scope)
                made.append(dims[v])
        plain = FuncType(ty.params, ty.ret)
        if not types and not dims:
            return plain, (), ()
        new = replace_vars(plain, types, dims)
        assert isinstance(new, FuncType)
        args = tuple(types[p] if isinstance(p, TypeVar) else dims[p] for p in ty.type_params)
        return new, args, tuple(made)

    def existential(self, name: str, hi: int | None, scope: Scope) -> Var:
        """A new dim for an extent that is known only when the program runs."""
        new = fresh(name, 0, hi)
        scope.dims.add(new)
        return new

    # ------------------------------------------------------------------ unification

    def unify(self, a: Type, b: Type, site: Site) -> Type:
        """Requires `a` and `b` to be equal and returns the better known of both; TypeCheckError if they differ."""
        try:
            return self._unify(a, b, site)
        except _DifferError as differ:
            got, wanted = self.zonk(a), self.zonk(b)
            details = [f"got    : {show(got)}", f"wanted : {show(wanted)}"]
            raise TypeCheckError(f"{site.what}: {differ}", span=site.span, details=details) from None

    def _unify(self, a: Type, b: Type, site: Site) -> Type:
        a, b = self.resolve(a), self.resolve(b)
        if a is b:
            return a
        if isinstance(a, Hole):
            return self._fill(a, b)
        if isinstance(b, Hole):
            return self._fill(b, a)
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            return self._tensors(a, b, site)
        if isinstance(a, FuncType) and isinstance(b, FuncType):
            return self._functions(a, b, site)
        if isinstance(a, ShapeType) and isinstance(b, ShapeType):
            return self._shapes(a, b, site)
        if isinstance(a, TupleType | RefType | TypeCall) and type(a) is type(b):
            return self._children(a, b, site)
        raise _DifferError("the types differ")

    def _children(self, a: Type, b: Type, site: Site) -> Type:
        left, right = a.children(), b.children()
        if len(left) != len(right):
            raise _DifferError(f"{len(left)} fields against {len(right)}")
        return a.with_children(tuple(self._unify(x, y, site) for x, y in zip(left, right, strict=True)))

    def _tensors(self, a: TensorType, b: TensorType, site: Site) -> TensorType:
        if a.dtype != b.dtype:
            raise _DifferError(f"the dtypes differ, {a.dtype} and {b.dtype}")
        if len(a.shape) != len(b.shape):
            raise _DifferError(f"the ranks differ, {len(a.shape)} and {len(b.shape)}")
        if a.shape == b.shape:
            return a
        shape = tuple(self._same(x, y, site) for x, y in zip(a.shape, b.shape, strict=True))
        return TensorType(shape, a.dtype)

    def _shapes(self, a: ShapeType, b: ShapeType, site: Site) -> ShapeType:
        if a.dims is None or b.dims is None:
            return b if a.dims is None else a
        if len(a.dims) != len(b.dims):
            raise _DifferError(f"the ranks differ, {len(a.dims)} and {len(b.dims)}")
        return ShapeType(tuple(self._same(x, y, site) for x, y in zip(a.dims, b.dims, strict=True)))

    def _functions(self, a: FuncType, b: FuncType, site: Site) -> Type:
        if len(a.params) != len(b.params):
            raise _DifferError(f"functions of {len(a.params)} and {len(b.params)} parameters")
        if len(a.type_params) == len(b.type_params):
            b = _renamed(b, a.type_params)
            kids = zip(a.children(), b.children(), strict=True)
            return a.with_children(tuple(self._unify(x, y, site) for x, y in kids))
        return self._unify(self.instantiate(a, site.scope)[0], self.instantiate(b, site.scope)[0], site)

    def _fill(self, h: Hole, ty: Type) -> Type:
        if self._occurs(h, ty):
            raise _DifferError("the type would contain itself")
        h.solution = ty
        if isinstance(ty, Hole):
            ty.watchers += h.watchers
        else:
            self._queue.extend(h.watchers)
        h.watchers = []
        return ty

    def _occurs(self, h: Hole, ty: Type) -> bool:
        ty = self.resolve(ty)
        return ty is h or any(self._occurs(h, k) for k in ty.children())

    # ------------------------------------------------------------------ dims

    def same(self, a: Dim, b: Dim, site: Site) -> Dim:
        """Requires two dims to be equal and returns the better known of both; TypeCheckError if they must differ."""
        try:
            return self._same(a, b, site)
        except _DifferError as differ:
            raise TypeCheckError(f"{site.what}: {differ}", span=site.span) from None

    def _same(self, a: Dim, b: Dim, site: Site) -> Dim:
        if self._dim_holes:
            a, b = self.dim(a), self.dim(b)
        if a is b:
            return a
        if isinstance(a, Const) and isinstance(b, Const):
            raise _DifferError(f"the dims differ, {a} and {b}")
        if self._dim_holes:
            for x, y in ((a, b), (b, a)):
                if isinstance(x, DimHole) and x not in variables(y):
                    return self._fill_dim(x, y)
            waits = [v for v in variables(a, b) if isinstance(v, DimHole)]
            if waits:
                return self._solve_or_wait(a, b, waits, site)
        return self._decide(a, b, site)

    def _decide(self, a: Dim, b: Dim, site: Site) -> Dim:
        better = b if isinstance(b, Const) else a
        if prove_equal(a, b):
            return better
        if provably_different(a, b):
            raise _DifferError(f"the dims differ, {a} and {b}")
        known = site.scope.constraints
        if (a, b) not in known and (b, a) not in known:
            known[a, b] = Constraint(a, b, site.what, site.span)
        return better

    def _solve_or_wait(self, a: Dim, b: Dim, waits: list[DimHole], site: Site) -> Dim:
        found = solve(a, b, waits)
        if found == {}:
            return a
        if found is not None:
            for h, d in found.items():
                assert isinstance(h, DimHole)
                self._fill_dim(h, d)
            return self._same(self.dim(a), self.dim(b), site)
        done = False

        def again() -> None:
            nonlocal done
            if not done:
                done = True
                self.same(a, b, site)

        for h in waits:
            h.watchers.append(again)
        return a

    def _fill_dim(self, h: DimHole, d: Dim) -> Dim:
        h.solution = d
        if isinstance(d, DimHole):
            d.watchers += h.watchers
        else:
            self._queue.extend(h.watchers)
        h.watchers = []
        return d


class _DifferError(Exception):
    """Two types or dims differ; carries the reason."""


def replace_vars(ty: Type, types: Mapping[TypeVar, Type], dims: Mapping[Var, Dim]) -> Type:
    """`ty` with type and dim variables replaced."""
    if isinstance(ty, TypeVar):
        return types.get(ty, ty)
    if isinstance(ty, TensorType):
        return TensorType(tuple(_replace_dim(d, dims) for d in ty.shape), ty.dtype)
    if isinstance(ty, ShapeType):
        return ty if ty.dims is None else ShapeType(tuple(_replace_dim(d, dims) for d in ty.dims))
    kids = ty.children()
    return ty.with_children(tuple(replace_vars(k, types, dims) for k in kids)) if kids else ty


def _replace_dim(d: Dim, dims: Mapping[Var, Dim]) -> Dim:
    if isinstance(d, Var):
        return dims.get(d, d)
    if not dims or not d.children():
        return d
    new = substitute(d, dims)
    return d if new is d else simplify(new)


def _renamed(ty: FuncType, params: tuple[TypeVar | Var, ...]) -> FuncType:
    """`ty` with its type parameters called as `params`."""
    if ty.type_params == params:
        return ty
    types: dict[TypeVar, Type] = {}
    dims: dict[Var, Dim] = {}
    for old, new in zip(ty.type_params, params, strict=True):
        if isinstance(old, TypeVar) and isinstance(new, TypeVar):
            types[old] = new
        elif isinstance(old, Var) and isinstance(new, Var):
            dims[old] = new
        else:
            raise _DifferError("a type parameter against a dim parameter")
    new_ty = replace_vars(FuncType(ty.params, ty.ret), types, dims)
    assert isinstance(new_ty, FuncType)
    return FuncType(new_ty.params, new_ty.ret, params)
