"""For how many values of loop variables conditions hold.

Where all extents are literals, by trying all values. Otherwise, for a single comparison of a sum whose terms count
through 0, s, 2s, … like the digits of a number: `v*16 + l < n`, `p % 4 * 8 + l < 9`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, cdiv, const
from legato.arith.linear import gather
from legato.arith.substitute import nodes
from legato.base import dtype as dt
from legato.tir._count import Count, as_count, at_least_zero, plus, ratio, smaller, times

__all__ = ["Condition", "is_static", "satisfied"]

Condition = tuple[Expr, bool]  # and whether it is to hold, or not to
Array = Any
TRIES: Final = 1 << 16

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
    found = _tried(conditions, extents)
    if found is not None or len(conditions) != 1:
        return found
    cond, holds = conditions[0]
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
