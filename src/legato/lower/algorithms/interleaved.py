"""Sums of products as n sums side by side, of every n-th term each.

    y[i, o] = Σ_k x[i, k] · w[k, o]

becomes, for data whose memory runs along k, with j = o · n + t for t in 0..n,

    sums[i, j] = Σ_s x[i, s · n + t] · w[s · n + t, o]
    y[i, o]    = Σ_t sums[i, o · n + t]

n neighbours of the data are repeated along a vector of `sums`. Machines that repeat so much of memory while they load
it, but less only by a shuffle, save the shuffles: as many as there are loads of data.
"""

from __future__ import annotations

from legato.arith.expr import Binary, Expr, Op, Var, const, floordiv, floormod
from legato.arith.simplify import simplify
from legato.arith.substitute import substitute
from legato.base.dataclass import dataclass
from legato.lower.access import depends, extent_of, stride
from legato.te.tensor import Axis, Reduction
from legato.tir.expr import Load

__all__ = ["Interleaved", "interleave"]


@dataclass(frozen=True, slots=True)
class Interleaved:
    """`terms` sums over `reduction` of `data`, of which `term` says which of the sums it is for, times `weights`, a
    function of `place`, the axis that is j."""

    data: Load
    weights: Load
    reduction: Reduction
    terms: int
    term: Var
    place: Axis


def interleave(body: Expr, red: Reduction, channel: Axis, row: Axis | None, n: int) -> Interleaved | None:
    """How the sum of `body` over `red` is formed as `n` sums; None if it is no sum of products of weights that follow
    `channel` but not `row` with data that does not follow `channel`, or does not fall into n sums of one length. One
    sum is the sum as it is."""
    factors = (body.a, body.b) if isinstance(body, Binary) and body.op is Op.MUL else ()
    reads = [x for x in factors if isinstance(x, Load)]
    if red.combiner != "sum" or len(reads) != 2:
        return None
    data, weights = sorted(reads, key=lambda x: depends(x, channel.var))
    if depends(data, channel.var) or not depends(weights, channel.var):
        return None
    if n == 1:
        return Interleaved(data, weights, red, 1, Var("t", lo=0, hi=0), channel)
    last = red.axes[-1]
    if (
        (row is not None and depends(weights, row.var))
        or stride(data, last.var) != 1
        or (extent_of(last.extent) or 1) % n
    ):
        return None
    step, term = Var(last.var.name, lo=0), Var("t", lo=0, hi=n - 1)
    place = Axis(Var(channel.var.name, lo=0), simplify(channel.extent * n))
    lanes = {last.var: step * n + floormod(place.var, const(n)), channel.var: floordiv(place.var, const(n))}
    apart, beside = substitute(data, {last.var: step * n + term}), substitute(weights, lanes)
    assert isinstance(apart, Load)
    assert isinstance(beside, Load)
    steps = Axis(step, simplify(floordiv(last.extent, const(n))))
    return Interleaved(apart, beside, Reduction(red.combiner, (*red.axes[:-1], steps), red.init), n, term, place)
