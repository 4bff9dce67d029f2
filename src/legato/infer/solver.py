"""Unification of types and dims, with a queue of problems that are asked again when a hole they wait for is filled.

Algorithm J of Milner (1978) with mutable cells for the holes. Dims unify by equality: a hole is filled, provably equal
dims are equal, provably different ones are an error, and what cannot be decided becomes a constraint of the function.
An equality such as `2 * n == m` for a hole n waits for more to be known; `settle` takes `n = m // 2` in the end and
leaves `2 * (m // 2) == m` as a constraint.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from legato.arith.expr import Const, Var, const, fresh, max_, min_
from legato.arith.linear import divide, solve
from legato.arith.prove import provably_different, prove_equal
from legato.arith.simplify import simplify
from legato.arith.substitute import replace, variables
from legato.base.dataclass import dataclass
from legato.base.errors import TypeCheckError
from legato.infer.holes import DimHole, Hole, dim_vars, show
from legato.infer.replace import rename_params, replace_vars
from legato.infer.site import Scope, Site
from legato.ir.constraint import Constraint, demanded, sides
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

__all__ = ["MAX_DEPTH", "Solver"]

MAX_DEPTH: Final = 100  # of types in types, as in texts
_MAX_SIZE: Final = 50_000  # parts of one type
_MAX_REASONS: Final = 3


@dataclass(slots=True)
class _Equation:
    """`a == b`, which waits for its holes."""

    a: Dim
    b: Dim
    site: Site
    done: bool = False


class Solver:
    """The state of one inference."""

    def __init__(self) -> None:
        self._dim_holes = False
        self._queue: deque[Callable[[], None]] = deque()
        self._equations: list[_Equation] = []
        self._budget = 0
        self._unnamed: set[Var] = set()  # dims that inference has made and that the program does not name
        self._names: dict[Var, Var] = {}  # what an annotation calls them
        self._any: set[TypeVar | Var] = set()  # parameters of polymorphic types that were compared: no one value's

    # ------------------------------------------------------------------ holes

    def hole(self, name: str = "_") -> Hole:
        """A new type hole."""
        return Hole(name)

    def failed(self) -> Hole:
        """The type of an expression with a mistake: it fits everything."""
        return Hole("error", failed=True)

    def dim_hole(self, name: str = "_", lo: int | None = 0, hi: int | None = None) -> DimHole:
        """A new dim hole, for a dim of that range."""
        self._dim_holes = True
        return DimHole(name, lo, hi)

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
        """`ty` with every filled hole replaced; TypeCheckError for a type that has grown absurdly large."""
        ty = self.resolve(ty)
        if isinstance(ty, TensorType):
            return self._tensor(ty)
        self._budget = _MAX_SIZE
        return self._zonk(ty, MAX_DEPTH)

    def _tensor(self, ty: TensorType) -> TensorType:
        if not self._dim_holes:
            return ty
        shape = tuple([self.dim(d) for d in ty.shape])
        return ty if shape == ty.shape else TensorType(shape, ty.dtype)

    def _zonk(self, ty: Type, depth: int) -> Type:
        ty = self.resolve(ty)
        if isinstance(ty, TensorType):
            return self._tensor(ty)
        if isinstance(ty, ShapeType):
            return ty if ty.dims is None else ShapeType(tuple(self.dim(d) for d in ty.dims))
        old = ty.children()
        self._budget -= 1
        if depth < 0 or self._budget < 0:
            raise _too_large()
        if not old:
            return ty
        kids = tuple([self._zonk(k, depth - 1) for k in old])
        return ty if all(a is b for a, b in zip(old, kids, strict=True)) else ty.with_children(kids)

    def dim(self, d: Dim) -> Dim:
        """`d` with every filled hole replaced, and with dims called as the program calls them."""
        while isinstance(d, DimHole) and d.solution is not None:
            d = d.solution
        if isinstance(d, Var):
            return self._names.get(d, d)
        if not self._dim_holes or not d.children():
            return d
        known: dict[Dim, Dim] = {
            v: self.dim(v)
            for v in variables(d)
            if v in self._names or (isinstance(v, DimHole) and v.solution is not None)
        }
        return simplify(replace(d, known)) if known else d

    def name(self, d: Dim, name: Var, scope: Scope) -> None:
        """An annotation has `name` for the dim `d`: if nothing else names it, it is called so from now on."""
        if isinstance(d, Var) and d in self._unnamed:
            self._unnamed.remove(d)
            self._names[d] = name
            self._dim_holes = True
            scope.dims.add(name)

    def open(self, ty: Type | None, name: str = "_") -> Type:
        """An annotation as a type: `_` and a missing annotation become holes."""
        if ty is None or isinstance(ty, HoleType):
            return Hole(name)
        kids = ty.children()
        return ty.with_children(tuple(self.open(k, f"a part of {name}") for k in kids)) if kids else ty

    # ------------------------------------------------------------------ polymorphism

    def instantiate(
        self, ty: FuncType, scope: Scope, type_args: Iterable[Type | Dim] = ()
    ) -> tuple[FuncType, tuple[Type | Dim, ...], tuple[Dim, ...]]:
        """`ty` without type parameters: they become holes (or the types of `type_args`).

        Dims that only its result names become new dims. Returns the type, what the type parameters became, and those.
        """
        given = list(type_args)
        made: list[Dim] = []
        types: dict[TypeVar, Type] = {}
        dims: dict[Var, Dim] = {}
        for n, p in enumerate(ty.type_params):
            arg = given[n] if n < len(given) else None
            if isinstance(p, TypeVar):
                types[p] = self.open(arg, p.name) if isinstance(arg, Type) else Hole(p.name)
            else:
                dims[p] = self.dim_hole(p.name, p.lo, p.hi)
        for v in dim_vars(ty.ret):
            if v not in dims and v not in scope.dims and not isinstance(v, DimHole):
                dims[v] = self.existential(v.name, v.hi, scope)
                made.append(dims[v])
        plain = FuncType(ty.params, ty.ret)
        if not types and not dims:
            return plain, (), ()
        new = replace_vars(plain, types, dims)
        assert isinstance(new, FuncType)
        ret = self.resolve(ty.ret)
        if isinstance(ret, Hole) and not any(self.resolve(p) is ret for p in ty.params):
            new = FuncType(new.params, self._instantiated_later(ret, types, dims, scope))
        args = tuple(types[p] if isinstance(p, TypeVar) else dims[p] for p in ty.type_params)
        return new, args, tuple(made)

    def _instantiated_later(
        self, ret: Hole, types: Mapping[TypeVar, Type], dims: Mapping[Var, Dim], scope: Scope
    ) -> Type:
        """What the result of a function, which is not known yet, is in one call of it."""
        result = Hole(ret.name)

        def again() -> None:
            known = self.zonk(ret)
            if isinstance(known, Hole) and not known.failed:
                known.watchers.append(again)
            else:
                self.unify(replace_vars(known, types, dims), result, Site("the result of a function", None, scope))

        ret.watchers.append(again)
        return result

    def existential(self, name: str, hi: int | None, scope: Scope) -> Var:
        """A new dim for an extent that is known only when the program runs."""
        new = fresh(name, 0, hi)
        scope.dims.add(new)
        self._unnamed.add(new)
        return new

    # ------------------------------------------------------------------ unification

    def unify(self, got: Type, wanted: Type, site: Site) -> Type:
        """Requires two types to be equal and returns the better known of both; TypeCheckError if they differ."""
        try:
            return self._unify(got, wanted, site)
        except _DifferError as differ:
            a, b = self.zonk(got), self.zonk(wanted)
            details = [f"got    : {show(a)}", f"wanted : {show(b)}", *self.reasons((got, wanted), site)]
            raise TypeCheckError(f"{site.what}: {differ}", span=site.span, details=details) from None

    def _unify(self, a: Type, b: Type, site: Site, depth: int = MAX_DEPTH) -> Type:
        a, b = self.resolve(a), self.resolve(b)
        if a is b:
            return a
        if depth < 0:
            raise _too_large()
        if isinstance(a, Hole):
            return self._fill(a, b, site)
        if isinstance(b, Hole):
            return self._fill(b, a, site)
        if isinstance(a, TensorType) and isinstance(b, TensorType):
            return self._tensors(a, b, site)
        if isinstance(a, FuncType) and isinstance(b, FuncType):
            return self._functions(a, b, site, depth)
        if isinstance(a, ShapeType) and isinstance(b, ShapeType):
            return self._shapes(a, b, site)
        if isinstance(a, TupleType | RefType | TypeCall) and type(a) is type(b):
            return self._children(a, b, site, depth)
        raise _DifferError("the types differ")

    def _children(self, a: Type, b: Type, site: Site, depth: int) -> Type:
        left, right = a.children(), b.children()
        if len(left) != len(right):
            raise _DifferError(f"{len(left)} fields against {len(right)}")
        return a.with_children(tuple([self._unify(x, y, site, depth - 1) for x, y in zip(left, right, strict=True)]))

    def _tensors(self, a: TensorType, b: TensorType, site: Site) -> TensorType:
        if a.dtype != b.dtype:
            raise _DifferError(f"the dtypes differ, {a.dtype} and {b.dtype}")
        if len(a.shape) != len(b.shape):
            raise _DifferError(f"the ranks differ, {len(a.shape)} and {len(b.shape)}")
        if a.shape == b.shape:
            return a
        shape = tuple([self._same(x, y, site) for x, y in zip(a.shape, b.shape, strict=True)])
        return TensorType(shape, a.dtype)

    def _shapes(self, a: ShapeType, b: ShapeType, site: Site) -> ShapeType:
        if a.dims is None or b.dims is None:
            return b if a.dims is None else a
        if len(a.dims) != len(b.dims):
            raise _DifferError(f"the ranks differ, {len(a.dims)} and {len(b.dims)}")
        return ShapeType(tuple(self._same(x, y, site) for x, y in zip(a.dims, b.dims, strict=True)))

    def _functions(self, a: FuncType, b: FuncType, site: Site, depth: int) -> Type:
        """Where only the wanted function is polymorphic, the other is not enough: it serves one instance of it."""
        if len(a.params) != len(b.params):
            raise _DifferError(f"functions of {len(a.params)} and {len(b.params)} parameters")
        if len(a.type_params) != len(b.type_params):
            if not a.type_params:
                raise _DifferError("a polymorphic function is wanted")
            untold = _untold(a)
            if untold and not b.type_params:
                raise _DifferError(f"no argument tells dim {untold[0]}, which only a call can state")
            a = self.instantiate(a, site.scope)[0]
            self._any.update(b.type_params)
            plain = self._unify(a, FuncType(b.params, b.ret), site, depth - 1)
            return FuncType(b.params, b.ret, b.type_params) if b.type_params else plain
        renamed = rename_params(b, a.type_params)
        if renamed is None:
            raise _DifferError("a type parameter against a dim parameter")
        self._any.update(a.type_params)
        kids = zip(a.children(), renamed.children(), strict=True)
        return a.with_children(tuple([self._unify(x, y, site, depth - 1) for x, y in kids]))

    def _fill(self, h: Hole, ty: Type, site: Site) -> Type:
        if h.failed and isinstance(ty, Hole):
            h, ty = ty, h  # what meets a mistake is not known either
        if h.failed:
            return ty
        if self._occurs(h, ty):
            raise _DifferError("the type would contain itself")
        h.solution, h.why = ty, site
        if isinstance(ty, Hole):
            ty.watchers += h.watchers
            if h.name.startswith("%"):
                ty.name = h.name  # a variable says more than what it was found to be the same as
        else:
            self._queue.extend(h.watchers)
        h.watchers = []
        return ty

    def _occurs(self, h: Hole, ty: Type) -> bool:
        todo = [ty]
        for _ in range(_MAX_SIZE):
            if not todo:
                return False
            part = self.resolve(todo.pop())
            if part is h:
                return True
            todo += part.children()
        raise _too_large()

    def reasons(self, types: Iterable[Type], site: Site) -> list[str]:
        """What earlier demands have said of the holes in `types`, one line each: where a conflict comes from."""
        found: dict[str, None] = {}
        todo = deque(types)
        while todo and len(found) < _MAX_REASONS:
            ty = todo.popleft()
            if isinstance(ty, Hole) and ty.solution is not None:
                told = ty.name != "_" and not isinstance(ty.solution, Hole)
                if told and ty.why is not None and ty.why is not site:
                    found[_reason(ty.name, show(self.zonk(ty)), ty.why, site)] = None
                todo.append(ty.solution)
            elif isinstance(ty, TensorType) and self._dim_holes:
                for v in variables(*ty.shape):
                    if isinstance(v, DimHole) and v.solution is not None and v.why not in (None, site):
                        assert v.why is not None
                        found[_reason(v.name, str(self.dim(v)), v.why, site)] = None
            todo += ty.children()
        return list(found)[:_MAX_REASONS]

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
            raise _differ(a, b)
        if self._dim_holes:
            for x, y in ((a, b), (b, a)):
                if isinstance(x, DimHole) and x not in variables(y):
                    return self._fill_dim(x, y, site)
            waits = [v for v in variables(a, b) if isinstance(v, DimHole)]
            if waits:
                return self._solve_or_wait(a, b, waits, site)
        return self._decide(a, b, site)

    def _decide(self, a: Dim, b: Dim, site: Site) -> Dim:
        better = b if isinstance(b, Const) else a
        if prove_equal(a, b):
            return better
        if provably_different(a, b):
            raise _differ(a, b)
        if self._any and any(v in self._any and v not in site.scope.dims for v in variables(a, b)):
            raise _differ(a, b)  # for some value: there is none to check when the program runs
        known = site.scope.constraints
        if (a, b) not in known and (b, a) not in known:
            known[a, b] = Constraint(a, b, site.what, site.span)
        return better

    def _solve_or_wait(self, a: Dim, b: Dim, waits: list[DimHole], site: Site) -> Dim:
        if provably_different(a, b):
            raise _differ(a, b)
        found = solve(a, b, waits)
        if found == {}:
            return a
        if found is not None:
            for h, d in found.items():
                assert isinstance(h, DimHole)
                self._fill_dim(h, d, site)
            return self._same(a, b, site)
        equation = _Equation(a, b, site)
        self._equations.append(equation)

        def again() -> None:
            if not equation.done:
                equation.done = True
                self.same(a, b, site)

        for h in waits:
            h.watchers.append(again)
        return a

    def mark(self) -> int:
        """The place in the list of equations to `settle` from."""
        return len(self._equations)

    def settle(self, start: int = 0) -> bool:
        """Solves equations that have waited in vain by division; what that may get wrong becomes a constraint.

        True if there was one: then more may be known. TypeCheckError if one has no solution.
        """
        moved = False
        for equation in self._equations[start:]:
            if equation.done:
                continue
            a, b = self.dim(equation.a), self.dim(equation.b)
            found = divide(a, b, [v for v in variables(a, b) if isinstance(v, DimHole)])
            if found is None:
                continue
            equation.done = moved = True
            hole, value = found
            assert isinstance(hole, DimHole)
            self._fill_dim(hole, simplify(value), equation.site)
            self.same(a, b, equation.site)
        return moved

    def forget(self) -> None:
        """Drops the equations of a finished function."""
        self._equations.clear()

    def _fill_dim(self, h: DimHole, d: Dim, site: Site) -> Dim:
        if isinstance(d, DimHole):
            d.watchers += h.watchers
            d.lo, d.hi = _tighter(max, d.lo, h.lo), _tighter(min, d.hi, h.hi)
        else:
            self._in_range(h, d, site)
            self._queue.extend(h.watchers)
        h.solution, h.why, h.watchers = d, site, []
        return d

    def _in_range(self, h: DimHole, d: Dim, site: Site) -> None:
        """Requires what a hole was filled with to be in its range."""
        if isinstance(d, Const):
            n = int(d.value)
            if (h.lo is not None and n < h.lo) or (h.hi is not None and n > h.hi):
                raise _DifferError(f"{h.name} is {n}, wanted {_range(h)}")
            return
        if h.lo is not None and h.lo > 0:
            self._decide(max_(d, const(h.lo)), d, site)
        if h.hi is not None:
            self._decide(min_(d, const(h.hi)), d, site)


class _DifferError(Exception):
    """Two types or dims differ; carries the reason."""


def _too_large() -> TypeCheckError:
    return TypeCheckError(f"a type is nested more than {MAX_DEPTH} deep or has more than {_MAX_SIZE} parts")


def _differ(a: Dim, b: Dim) -> _DifferError:
    a, b, otherwise = demanded(a, b)
    left, right = sides(a, b)
    wanted = f": they must be equal{otherwise}" if otherwise else ""
    return _DifferError(f"the dims differ, {left} and {right}{wanted}")


def _untold(ty: FuncType) -> list[str]:
    """The dim parameters of a function that no argument can tell: a call has to state them."""
    told = dim_vars(TupleType(ty.params))
    return [p.name for p in ty.type_params if isinstance(p, Var) and p not in told]


def _range(v: Var) -> str:
    lo, hi = "" if v.lo is None else f"at least {v.lo}", "" if v.hi is None else f"at most {v.hi}"
    return f"{lo} and {hi}" if lo and hi else lo or hi


def _tighter(choose: Callable[[int, int], int], a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else choose(a, b)


def _reason(name: str, value: str, why: Site, site: Site) -> str:
    place = "" if why.span is None or why.span == site.span else f" at {why.span}"
    return f"{name} : {value}, from {why.what}{place}"
