"""Stages in the form that schedules know.

C[x, y] = T[x // 32, x % 32, y]; T[a, b, y] = sum(r: …32 * a + b…)      =>      C[x, y] = sum(r: …x…)
sum(p, q: A[32 * p + q])                                                 =>      sum(r: A[r])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import permutations
from operator import mul

from legato.arith.expr import Binary, Const, Expr, Op, Var, const
from legato.arith.prove import prove_equal
from legato.arith.simplify import simplify
from legato.arith.substitute import nodes, substitute, variables
from legato.base import dtype as dt
from legato.te.order import in_order, reads
from legato.te.sums import renamed
from legato.te.tensor import Axis, Reduction, Stage, Tensor
from legato.tir.expr import Load
from legato.tir.walk import has_load

__all__ = ["element", "tidied"]


def tidied(outputs: Sequence[Tensor]) -> None:
    """Gives the stages that compute `outputs` the form described above."""
    order = [t for t in in_order(outputs) if isinstance(t.stage, Stage)]
    readers = Counter(x for t in order for x in reads(t)) + Counter(outputs)
    for t in order:
        assert isinstance(t.stage, Stage)
        source = t.stage.body.buffer if isinstance(t.stage.body, Load) and t.stage.reduction is None else None
        if isinstance(source, Tensor) and readers[source] == 1 and _has_each_once(t, source):
            t.stage = _in_place_of(t.stage)
        while (joined := _joined(t.stage)) is not None:
            t.stage = joined


def element(stage: Stage, index: Sequence[Expr]) -> tuple[Expr, Reduction | None]:
    """What a stage computes at `index`, over variables of its own."""
    body = substitute(stage.body, dict(zip((a.var for a in stage.axes), index, strict=True)))
    return (body, None) if stage.reduction is None else renamed(body, stage.reduction)


def _has_each_once(t: Tensor, source: Tensor) -> bool:
    """Whether `t`, each of whose elements is one of a reduction, has none of them twice."""
    stage, made = t.stage, source.stage
    assert isinstance(stage, Stage)
    assert isinstance(stage.body, Load)
    if not isinstance(made, Stage) or made.reduction is None or any(map(has_load, stage.body.indices)):
        return False
    axes = {a.var for a in stage.axes}
    used = set(variables(*stage.body.indices))
    return axes <= used and prove_equal(reduce(mul, source.shape, const(1)), reduce(mul, t.shape, const(1)))


def _in_place_of(stage: Stage) -> Stage:
    assert isinstance(stage.body, Load)
    assert isinstance(stage.body.buffer, Tensor)
    assert isinstance(stage.body.buffer.stage, Stage)
    body, red = element(stage.body.buffer.stage, stage.body.indices)
    assert red is not None
    limits = {a.var: a.extent for a in (*stage.axes, *red.axes)}
    return Stage(stage.axes, simplify(body, None, limits), red)


def _joined(stage: Stage) -> Stage | None:
    """`stage` with one axis in place of two that are summed over, if these occur as one subscript only."""
    red = stage.reduction
    for a, b in () if red is None else permutations(red.axes, 2):
        assert red is not None
        r = Axis(Var("r", dt.index, 0), simplify(a.extent * b.extent))
        rest = [x for x in red.axes if x not in (a, b)]
        limits = {x.var: x.extent for x in (*stage.axes, *rest, r)}
        body = substitute(stage.body, {a.var: r.var // b.extent, b.var: r.var % b.extent})
        body = simplify(body, None, limits)
        if isinstance(b.extent, Const) and r.var in variables(body) and not _is_divided(body, r.var):
            at = min(red.axes.index(a), red.axes.index(b))
            axes = (*rest[:at], r, *rest[at:])
            return Stage(stage.axes, body, Reduction(red.combiner, axes, red.init))
    return None


def _is_divided(body: Expr, v: Var) -> bool:
    divisions = (n for n in nodes(body) if isinstance(n, Binary) and n.op in (Op.FLOORDIV, Op.FLOORMOD))
    return any(v in variables(n) for n in divisions)
