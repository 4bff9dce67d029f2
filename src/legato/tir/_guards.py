"""For how many values of loop variables conditions hold.

Where all extents are literals, by trying all values. Otherwise, for a single comparison of a sum whose terms count
through 0, s, 2s, … like the digits of a number: `v*16 + l < n`, `p % 4 * 8 + l < 9`. Otherwise, where the extents are
known to be small, as one term for each value: 1 where the conditions hold for it, else 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from legato.arith.bounds import bounds
from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, cdiv, const, land, lt
from legato.arith.linear import gather
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, substitute
from legato.base import dtype as dt
from legato.tir._count import Count, as_count, as_expr, at_least_zero, indicator, plus, ratio, smaller, times

__all__ = ["Condition", "is_static", "satisfied"]

Condition = tuple[Expr, bool]  # and whether it is to hold, or not to
Array = Any
TRIES: Final = 1 << 16
TERMS: Final = 4  # of a count, one for each value of the variables; formulas shall stay short
EXCLUDED: Final = 4  # conditions that are not to hold, each of which doubles the terms

_OPS: Final[Mapping[Op, Callable[[Array, Array], Array]]] = {
    Op.ADD: np.add,
    Op.SUB: np.subtract,
    Op.MUL: np.multiply,
    Op.FLOORDIV: np.floor_divide,
    Op.FLOORMOD: np.mod,
    Op.MIN: np.minimum,
    Op.MAX: np.maximum,
    Op.LT: np.less,
    Op.LE: np.less_equal,
    Op.EQ: np.equal,
    Op.NE: np.not_equal,
    Op.AND: np.logical_and,
    Op.OR: np.logical_or,
}


def is_static(e: Expr) -> bool:
    """True if `e` does not depend on memory."""
    return all(isinstance(node, Var | Const | Binary | Select) for node in nodes(e))


def satisfied(conditions: Sequence[Condition], extents: Mapping[Var, Count]) -> Count | None:
    """For how many values of the variables of `extents`, each below its extent, all conditions hold; None: unknown."""
    found: Count | None = _tried(conditions, extents)
    if found is None and len(conditions) == 1:
        found = _compared(conditions[0], extents)
    return _one_by_one(conditions, extents) if found is None else found


def _compared(condition: Condition, extents: Mapping[Var, Count]) -> Count | None:
    cond, holds = condition
    true = _digits(cond, extents)
    if true is None or holds:
        return true
    total: Count = 1
    for extent in extents.values():
        total = times(total, extent)
    return plus(total, times(-1, true))


def _tried(conditions: Sequence[Condition], extents: Mapping[Var, Count]) -> int | None:
    sizes = [extent for extent in extents.values() if isinstance(extent, int)]
    if len(sizes) < len(extents) or not 0 < math.prod(sizes) <= TRIES:
        return 0 if 0 in sizes else None
    grid: dict[Expr, Array] = dict(zip(extents, np.ogrid[tuple(slice(0, n) for n in sizes)], strict=True))
    hold: Array = np.ones(sizes, np.bool_)
    for cond, wanted in conditions:
        value = _value(cond, grid)
        if value is None:
            return None
        hold = hold & (value == wanted)
    return int(np.count_nonzero(hold))


def _value(e: Expr, known: Mapping[Expr, Array]) -> Array | None:
    """`e` for all values of the variables; None where it is of something else, too."""
    values = dict(known)
    for node in nodes(e):
        if node in values:
            continue
        if isinstance(node, Const) and not isinstance(node.value, float):
            values[node] = node.value
        elif isinstance(node, Select):
            values[node] = np.where(values[node.cond], values[node.a], values[node.b])
        elif isinstance(node, Binary) and node.op in _OPS and (node.dtype is dt.index or node.dtype.is_bool):
            if node.op in (Op.FLOORDIV, Op.FLOORMOD) and not np.all(values[node.b]):
                return None
            values[node] = _OPS[node.op](values[node.a], values[node.b])
        else:
            return None
    return values[e]


# ---------------------------------------------------------------------------------------------------- digits


def _digits(cond: Expr, extents: Mapping[Var, Count]) -> Count | None:
    """For how many values `step*k + others < 0` holds, where k is all that depends on the variables."""
    if not isinstance(cond, Binary) or cond.op not in (Op.LT, Op.LE) or cond.a.dtype is not dt.index:
        return None
    terms, total = gather(cond.a - cond.b if cond.op is Op.LT else cond.a - cond.b - 1)
    digits: list[tuple[int, Count]] = []
    often: dict[Var, Count] = dict(extents)  # for how many values of a variable its digit is the same
    bound: Expr = const(-total)
    for atom, c in terms.items():
        if not c:
            continue
        if not any(node in extents for node in nodes(atom)):
            if not is_static(atom):
                return None
            bound = bound - atom * c
            continue
        digit = _digit(atom, extents)
        if digit is None or often[digit[0]] != extents[digit[0]]:
            return None
        var, size, same = digit
        often[var] = same
        if size != 1:
            digits.append((c, size))
    digits.sort(key=lambda digit: digit[0])
    step = digits[0][0] if digits else 1
    reach: Count = 1
    for c, size in digits:
        if c <= 0 or not isinstance(reach, int) or c != step * reach:
            return None
        reach = times(reach, size)
    count = smaller(reach, at_least_zero(cdiv(bound, const(step))))
    for repeats in often.values():
        count = times(count, repeats)
    return count


def _digit(atom: Expr, extents: Mapping[Var, Count]) -> tuple[Var, Count, Count] | None:
    """A variable v, how many values `atom` (v, v // m or v % m) takes, and for how many of v's it is the same."""
    if isinstance(atom, Var):
        return atom, extents[atom], 1
    if not isinstance(atom, Binary) or not isinstance(atom.a, Var) or atom.a not in extents or not is_static(atom.b):
        return None
    if any(node in extents for node in nodes(atom.b)):
        return None
    inner = as_count(atom.b)
    outer = ratio(extents[atom.a], inner)
    if outer is None or atom.op not in (Op.FLOORDIV, Op.FLOORMOD):
        return None
    return (atom.a, outer, inner) if atom.op is Op.FLOORDIV else (atom.a, inner, outer)


# ---------------------------------------------------------------------------------------------------- one by one


def _one_by_one(conditions: Sequence[Condition], extents: Mapping[Var, Count]) -> Count | None:
    """The sum over all values of the variables, where these are few."""
    ends = [bounds(as_expr(extent)).hi for extent in extents.values()]
    excluded = [cond for cond, holds in conditions if not holds]
    few = math.prod(0 if end is None else end for end in ends)
    if None in ends or not 0 < few <= TERMS or len(excluded) > EXCLUDED:
        return None
    # not b: what holds without b, less what holds with it
    signed: list[tuple[int, tuple[Expr, ...]]] = [(1, tuple(cond for cond, holds in conditions if holds))]
    for cond in excluded:
        signed += [(-sign, (*wanted, cond)) for sign, wanted in signed]
    total: Count = 0
    for values in product(*(range(end) for end in ends if end is not None)):
        at = dict(zip(extents, map(const, values), strict=True))
        runs = [lt(value, as_expr(extents[var])) for var, value in at.items()]
        for sign, wanted in signed:
            holds = _all_of([*runs, *(substitute(cond, at) for cond in wanted)])
            total = plus(total, times(sign, indicator(holds)))
    return total


def _all_of(conditions: Iterable[Expr]) -> Expr:
    """All of `conditions` at once; of several upper bounds of one expression, the least."""
    limits: dict[Expr, int] = {}
    others: dict[Expr, None] = {}
    for cond in conditions:
        if isinstance(cond, Binary) and cond.op is Op.LT and isinstance(cond.b, Const) and cond.dtype.is_bool:
            bounded, limit = simplify(cond.a), int(cond.b.value)
            limits[bounded] = min(limit, limits.get(bounded, limit))
        else:
            others[simplify(cond)] = None
    found: Expr = const(1, dt.bool_)
    for cond in (*others, *(lt(e, limit) for e, limit in limits.items())):
        found = land(found, cond)
    return found
