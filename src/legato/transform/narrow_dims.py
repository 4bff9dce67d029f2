"""Ranges of the program's dims, from what is checked when it is called anyway.

    length == min(length, 512)        =>        length: ShapeVar(0, 512)

A slice of 512 positions that is added to `length` rows says so: more rows than positions do not fit. What is known to
end stays in caches, where attention over rows without an end would not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from legato.arith.expr import Binary, Const, Op, Var, const
from legato.arith.simplify import simplify
from legato.arith.substitute import variables
from legato.base.dataclass import dataclass
from legato.ir.constraint import Constraint
from legato.ir.contents import body_nodes
from legato.ir.expr import Function
from legato.ir.module import Module
from legato.ir.types import Dim, FuncType, TypeVar
from legato.transform._copy import Copy
from legato.transform.pass_ import Pass

__all__ = ["NarrowDims", "is_main_called", "with_dims"]


@dataclass(frozen=True, slots=True)
class NarrowDims(Pass):
    """Module → module whose @main has dims with the ranges that its constraints leave; those that say no more are gone.

    A @main that the program itself calls is left alone: nothing is checked before such calls.
    """

    name = "narrow-dims"

    def __call__(self, mod: Module) -> Module:
        if "main" not in mod or is_main_called(mod):
            return mod
        main = mod["main"]
        if not isinstance(main, Function):
            return mod
        dims = _narrowed(main.attrs.get("constraints", ()), [v for v in main.type_params if isinstance(v, Var)])
        return mod.with_function(mod.var("main"), with_dims(main, dims)) if dims else mod


def with_dims(func: Function, dims: Mapping[Var, Dim]) -> Function:
    """`func` (typed) for these values of dims of its own, which may be other variables; the same constants, fresh
    variables. Constraints that hold whatever the other dims are disappear."""
    copy = Copy(dims=dims)
    made = copy.expr(func)
    assert isinstance(made, Function)
    given = (dims.get(p, p) if isinstance(p, Var) else p for p in func.type_params)
    params = tuple(p for p in given if isinstance(p, Var | TypeVar))
    ty = made.ty
    left = tuple(c for c in made.attrs.get("constraints", ()) if simplify(c.a - c.b) is not const(0))
    attrs = {name: value for name, value in made.attrs.items() if name != "constraints"}
    attrs = {**attrs, "constraints": left} if left else attrs
    ty = FuncType(ty.params, ty.ret, params) if isinstance(ty, FuncType) else ty
    return replace(made, type_params=params, attrs=attrs, ty=ty)


def is_main_called(mod: Module) -> bool:
    """True if @main is mentioned in the program."""
    main = mod.var("main")
    return any(node == main for _, f in mod.graph_functions() for node in body_nodes(f))


def _narrowed(constraints: Iterable[Constraint], dims: Iterable[Var]) -> dict[Var, Dim]:
    """Variables in the place of those dims that the constraints bound."""
    limits: dict[Var, tuple[int | None, int | None]] = {v: (v.lo, v.hi) for v in dims}
    for c in constraints:
        for a, b in ((c.a, c.b), (c.b, c.a)):
            found = _limit(a, b)
            if found is None or found[0] not in limits:
                continue
            v, op, most = found
            lo, hi = limits[v]
            if op is Op.MIN:
                limits[v] = lo, most if hi is None else min(hi, most)
            else:
                limits[v] = most if lo is None else max(lo, most), hi
    changed = {v: pair for v, pair in limits.items() if pair != (v.lo, v.hi)}
    return {v: Var(v.name, v.dtype, lo, hi) for v, (lo, hi) in changed.items() if hi is None or (lo or 0) <= hi}


def _limit(a: Dim, b: Dim) -> tuple[Var, Op, int] | None:
    """(v, MIN, n) where `a` == `b` says that v is n at most, (v, MAX, n) where n at least."""
    if not isinstance(b, Binary) or b.op not in (Op.MIN, Op.MAX):
        return None
    used = variables(a)
    if len(used) != 1:
        return None
    for same, other in ((b.a, b.b), (b.b, b.a)):
        limit = simplify(other - (a - used[0]))
        if simplify(same - a) is const(0) and isinstance(limit, Const):
            return used[0], b.op, int(limit.value)
    return None
