"""Reductions whose terms are zero but for every s-th position, phase by phase (transposed convolutions).

    y[p] = Σ_k select((p + k·d + c) % s == 0, x[(p + k·d + c) // s], 0) · w[k]

is for each phase φ < s, with the taps k₀ + t·m that meet it,

    y[s·q + φ] = Σ_m x[q + …] · w[k₀ + t·m]

so nothing is multiplied by the zeros in between. In several dimensions every combination of phases is one. The terms
left out are zeros: either the product is in the Select, or the weights are finite.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var, cdiv, const
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, substitute, variables
from legato.base.dataclass import dataclass
from legato.lower.access import extent_of
from legato.lower.algorithms.part import Part
from legato.lower.conditions import conjuncts, simplified
from legato.te.tensor import Axis, Reduction

__all__ = ["polyphase"]

MANY = 16  # phases beyond which the code would grow more than it gains


@dataclass(frozen=True, slots=True)
class _Comb:
    """The condition that `sum` is divisible by `stride`: it has one output axis and one reduced axis."""

    axis: Axis
    tap: Axis
    condition: Expr
    stride: int


def polyphase(body: Expr, axes: Sequence[Axis], reduction: Reduction) -> list[Part] | None:
    """The sum of `body` over `reduction` as phases that together cover `axes`, those with elements; None if it has
    none."""
    if reduction.combiner != "sum":
        return None
    combs = _combs(body, axes, reduction.axes)
    if not combs or len({c.axis.var for c in combs}) < len(combs) or len({c.tap.var for c in combs}) < len(combs):
        return None
    choices = list(itertools.product(*(range(c.stride) for c in combs)))
    if len(choices) > MANY:
        return None
    found = []
    for choice in choices:
        met = [_taps(c, phase) for c, phase in zip(combs, choice, strict=True)]
        if any(m is None for m in met):
            return None
        found.append(_part(body, axes, reduction, combs, choice, [m for m in met if m is not None]))
    return [p for p in found if all(extent_of(a.extent) != 0 for a in p.axes)]


def _combs(body: Expr, axes: Sequence[Axis], reduced: Sequence[Axis]) -> list[_Comb]:
    """The conditions of Selects that are zero elsewhere which compare a remainder with zero."""
    found = []
    zeros = [n for n in nodes(body) if isinstance(n, Select) and isinstance(n.b, Const) and n.b.value == 0]
    for condition in dict.fromkeys(c for n in zeros for c in conjuncts(n.cond)):
        if not isinstance(condition, Binary) or condition.op is not Op.EQ:
            continue
        left = condition.a
        if not isinstance(left, Binary) or left.op is not Op.FLOORMOD or not isinstance(left.b, Const):
            continue
        used = set(variables(condition))
        mine = [a for a in axes if a.var in used]
        taps = [a for a in reduced if a.var in used]
        if len(mine) == len(taps) == 1 and len(used) == 2:
            found.append(_Comb(mine[0], taps[0], condition, int(left.b.value)))
    return found


def _taps(comb: _Comb, phase: int) -> range | None:
    """The taps that meet `phase`, evenly spaced; None where that is not known."""
    extent = extent_of(comb.tap.extent)
    if extent is None:
        return None
    place = comb.axis.var * comb.stride + phase
    met = []
    for tap in range(extent):
        holds = simplify(substitute(comb.condition, {comb.axis.var: place, comb.tap.var: const(tap)}))
        if not isinstance(holds, Const):
            return None
        if holds.value:
            met.append(tap)
    step = met[1] - met[0] if len(met) > 1 else 1
    even = range(met[0], met[-1] + 1, step) if met else range(0)
    return even if list(even) == met else None


def _part(
    body: Expr,
    axes: Sequence[Axis],
    reduction: Reduction,
    combs: Sequence[_Comb],
    choice: Sequence[int],
    met: Sequence[range],
) -> Part:
    index: dict[Var, Expr] = {}  # what the old variables are
    places: dict[Var, Axis] = {}  # the axes in place of the old ones
    taps: dict[Var, Axis] = {}
    for comb, phase, tap in zip(combs, choice, met, strict=True):
        old, place, which = comb.axis, Var(comb.axis.var.name, lo=0), Var(comb.tap.var.name, lo=0)
        index[old.var] = place * comb.stride + phase
        places[old.var] = Axis(place, simplify(cdiv(old.extent - phase, comb.stride)))
        taps[comb.tap.var] = Axis(which, const(len(tap)))
        index[comb.tap.var] = which * tap.step + tap.start
    now = tuple(places.get(a.var, a) for a in axes)
    reduced = tuple(taps.get(a.var, a) for a in reduction.axes)
    inner = simplified(substitute(body, index), (*now, *reduced))
    init = None if reduction.init is None else substitute(reduction.init, index)
    return Part({v: e for v, e in index.items() if v in places}, now, inner, Reduction("sum", reduced, init))
