"""What one iteration of a loop adds to a total, and reductions as parts of expressions.

total + a * b                                        adds a * b
select(v == 0, 0, total) + a * b                     begins with 0, adds a * b
select(c, total + a, total)                          adds select(c, a, 0)
"""

from __future__ import annotations

from functools import reduce

from legato.arith.expr import Binary, Expr, Op, Select, Var, binary, const, eq, land, lt, select
from legato.arith.substitute import nodes, rewrite, substitute, variables
from legato.base import dtype as dt
from legato.te.tensor import COMBINERS, Axis, Reduction, Stage, Tensor
from legato.tir.expr import Load, call, identity

__all__ = ["accumulation", "begun", "combiner_of", "renamed", "without_neutral"]

_COMBINERS = frozenset(COMBINERS.values())


def accumulation(value: Expr, total: Var) -> tuple[Op, Expr] | None:
    """(op, e) of a `value` = total op e, for + * max min; None for another. Sums and products are reordered."""
    op: Op | None = None
    terms: list[Expr] = []
    while value is not total:
        step = _step(value, total)
        if step is None or (op is not None and step[0] is not op):
            return None
        op, term, value = step
        terms.append(term)
    return None if op is None else (op, reduce(lambda a, b: binary(op, b, a), terms))


def _step(value: Expr, total: Var) -> tuple[Op, Expr, Expr] | None:
    """(op, term, rest) of a value = rest op term, where `rest` has the total."""
    if isinstance(value, Select) and total not in variables(value.cond):
        sides = [s for s in (value.a, value.b) if s is not total]
        found = [accumulation(s, total) for s in sides]
        if None in found or len({f[0] for f in found if f is not None}) != 1:
            return None
        op = next(f[0] for f in found if f is not None)
        neutral = identity(op, value.dtype)
        parts = iter(f[1] for f in found if f is not None)
        a, b = (neutral if s is total else next(parts) for s in (value.a, value.b))
        return op, select(value.cond, a, b), total
    if not isinstance(value, Binary) or value.dtype.is_bool:
        return None
    op, a, b = value.op, value.a, value.b
    left, right = total in variables(a), total in variables(b)
    if left == right:
        return None
    if op in _COMBINERS:
        return (op, b, a) if left else (op, a, b)
    if op is Op.SUB and left:
        return Op.ADD, call("neg", b) if b.dtype.is_float else const(0, b.dtype) - b, a
    return None


def begun(value: Expr, total: Var, v: Var) -> tuple[Expr, Expr] | None:
    """Of an iteration that begins with select(v == 0, first, total) in place of the total: what that is ahead of all
    iterations, and the value with the total in its place. None for any other."""
    starts = [n for n in nodes(value) if isinstance(n, Select) and n.b is total and _is_first(n.cond, v) is not None]
    if len(starts) != 1 or {v, total} & set(variables(starts[0].a)):
        return None
    start, token = starts[0], Var(total.name, total.dtype)
    rest = rewrite(value, lambda e: token if e is start else None)
    if total in variables(rest):
        return None
    others = _is_first(start.cond, v)
    assert others is not None
    return select(others, start.a, total), substitute(rest, {token: total})


def _is_first(cond: Expr, v: Var) -> Expr | None:
    """The rest of a condition that says v == 0, among others; None where it does not."""
    parts, rest = [cond], const(True, dt.bool_)
    others: Expr = rest
    found = False
    while parts:
        c = parts.pop()
        if isinstance(c, Binary) and c.op is Op.AND:
            parts += (c.b, c.a)
        elif c is eq(v, const(0)) or c is eq(const(0), v):
            found = True
        elif v in variables(c):
            return None
        else:
            others = land(others, c)
    return others if found else None


def without_neutral(value: Expr) -> Expr:
    """`value` without what adds nothing to reductions: their neutral element in front, and in place of empty ones."""

    def step(e: Expr) -> Expr | None:
        if isinstance(e, Binary):
            for start, total in ((e.a, e.b), (e.b, e.a)):
                if combiner_of(total) is e.op and start is identity(e.op, e.dtype):
                    return total
        if isinstance(e, Select) and (op := combiner_of(e.a)) is not None and e.b is identity(op, e.dtype):
            return e.a if any(e.cond is lt(const(0), d) for d in _summed(e.a)) else None
        return None

    return rewrite(value, step)


def combiner_of(e: Expr) -> Op | None:
    """What combines the terms of the reduction that `e` is an element of; None of others."""
    red = _reduction(e)
    return None if red is None or red.init is not None else COMBINERS[red.combiner]


def _summed(e: Expr) -> list[Expr]:
    red = _reduction(e)
    return [] if red is None else [a.extent for a in red.axes]


def _reduction(e: Expr) -> Reduction | None:
    if not isinstance(e, Load) or not isinstance(e.buffer, Tensor) or not isinstance(e.buffer.stage, Stage):
        return None
    return e.buffer.stage.reduction


def renamed(body: Expr, red: Reduction) -> tuple[Expr, Reduction]:
    """A reduction of `body` over variables of its own."""
    axes = tuple(Axis(Var(a.var.name, dt.index, 0), a.extent) for a in red.axes)
    names: dict[Var, Expr] = {a.var: b.var for a, b in zip(red.axes, axes, strict=True)}
    return substitute(body, names), Reduction(red.combiner, axes, red.init)
