"""The stages of a kernel in parts that are operators of their own: each can be fused with what is around it.

    Y[i, j] = sum(k: X[i, k] * W[k, j]);  Z[i, j] = max(Y[i, j] + B[j], 0)          a contraction | an elementwise stage
    M[i] = max(k: X[i, k]);  E[i, j] = exp(X[i, j] - M[i]);  …                      one part: reductions along rows

A contraction is a part, together with what only rearranges or pads one of its operands; so is every other stage, but
those that are connected with reductions, none of them a contraction, where there are several: they are computed row by
row.
"""

from __future__ import annotations

from collections.abc import Sequence

from legato.arith.expr import Binary, Const, Expr, Op, Select, Var
from legato.arith.prove import prove_all_equal, prove_equal
from legato.arith.substitute import nodes, variables
from legato.base.dataclass import dataclass
from legato.te.order import in_order, reads
from legato.te.tensor import Stage, Tensor
from legato.tir.expr import Cast, Load
from legato.tir.walk import has_load

__all__ = ["Part", "is_broadcast", "is_contraction", "is_elementwise", "is_move", "parts"]


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """Stages that compute `outputs` from `inputs`, which others compute."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


def parts(outputs: Sequence[Tensor]) -> list[Part]:
    """The stages that compute `outputs` in parts, each behind those that it reads."""
    order = [t for t in in_order(outputs) if t.stage is not None]
    groups = _groups(order, outputs)
    found: list[Part] = []
    for group in groups:
        own = set(group)
        elsewhere = {x for t in order if t not in own for x in reads(t)} | set(outputs)
        inputs = dict.fromkeys(x for t in group for x in reads(t) if x not in own)
        found.append(Part(tuple(inputs), tuple(t for t in group if t in elsewhere)))
    return found


def _groups(order: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[list[Tensor]]:
    """Stages by part, in an order of which each depends on earlier ones only."""
    level: dict[Tensor, int] = {}  # contractions ahead of a stage, on the path with most of them
    for t in order:
        level[t] = max((level[x] + is_contraction(x) for x in reads(t) if x in level), default=0)
    own = _moved(order, outputs)
    moved = {t for ts in own.values() for t in ts}
    rest = [t for t in order if not is_contraction(t) and t not in moved]
    joined: list[list[Tensor]] = []
    for t in rest:
        near = [g for g in joined if level[g[0]] == level[t] and any(x in g for x in reads(t))]
        joined = [g for g in joined if g not in near]
        joined.append([*(x for g in near for x in g), t])
    found = [[*own.get(t, ()), t] for t in order if is_contraction(t)]
    for group in joined:
        found += [group] if _is_rowwise(group) else [[t] for t in group]
    place = {t: n for n, t in enumerate(order)}
    for group in found:
        group.sort(key=lambda t: place[t])
    return sorted(found, key=lambda g: (level[g[-1]], is_contraction(g[-1]), place[g[-1]]))


def _moved(order: Sequence[Tensor], outputs: Sequence[Tensor]) -> dict[Tensor, list[Tensor]]:
    """For contractions, the stages that only rearrange or pad what they alone read."""
    readers: dict[Tensor, list[Tensor]] = {}
    for t in order:
        for x in reads(t):
            readers.setdefault(x, []).append(t)
    found: dict[Tensor, list[Tensor]] = {}
    for t in order:
        if is_move(t) and t not in outputs and len(readers[t]) == 1 and is_contraction(readers[t][0]):
            found.setdefault(readers[t][0], []).append(t)
    return found


def is_move(t: Tensor) -> bool:
    """Whether each element of `t` is one of another tensor or a literal, whatever data says."""
    stage = t.stage
    if not isinstance(stage, Stage) or stage.reduction is not None:
        return False
    todo = [stage.body]
    while todo:
        e = todo.pop()
        if isinstance(e, Select) and not has_load(e.cond):
            todo += (e.a, e.b)
        elif not isinstance(e, Const) and not (isinstance(e, Load) and not any(map(has_load, e.indices))):
            return False
    return True


def _is_rowwise(group: Sequence[Tensor]) -> bool:
    """Whether more is made of a reduction than elements at its own places."""
    behind: dict[Tensor, set[Tensor]] = {}  # the reductions that a stage is computed from
    for t in group:
        near = [x for x in reads(t) if x in behind]
        behind[t] = {r for x in near for r in behind[x]} | {x for x in near if _is_reduction(x)}
        if any(_is_reduction(t) or not prove_all_equal(t.shape, r.shape) for r in behind[t]):
            return True
    return False


def _is_reduction(t: Tensor) -> bool:
    return isinstance(t.stage, Stage) and t.stage.reduction is not None


def is_contraction(t: Tensor) -> bool:
    """Whether `t` is a sum of products of which a factor is used for several of its elements."""
    stage = t.stage
    if not isinstance(stage, Stage) or stage.reduction is None or stage.reduction.combiner != "sum":
        return False
    body = stage.body
    while isinstance(body, Cast):
        body = body.a
    if not isinstance(body, Binary) or body.op is not Op.MUL:
        return False
    summed = {a.var for a in stage.reduction.axes}
    kept = {a.var for a in stage.axes if not (isinstance(a.extent, Const) and a.extent.value == 1)}
    sides = [_used(side) for side in (body.a, body.b)]
    return all(side & summed for side in sides) and any(not kept <= side for side in sides)


def _used(e: Expr) -> set[Var]:
    """The variables that the subscripts in `e` use."""
    return {v for n in nodes(e) if isinstance(n, Load) for v in variables(*n.indices)}


def is_elementwise(t: Tensor) -> bool:
    """Whether each element of `t` is computed from those at its own place."""
    return is_broadcast(t) and all(x.rank == t.rank for x in reads(t))


def is_broadcast(t: Tensor) -> bool:
    """Whether each element of `t` is computed from those at its own place, in tensors that may lack dimensions."""
    stage = t.stage
    if not isinstance(stage, Stage) or stage.reduction is not None:
        return False
    place = {a.var: n for n, a in enumerate(stage.axes)}
    for x in nodes(stage.body):
        if not isinstance(x, Load):
            continue
        at = [place.get(i, -1) if isinstance(i, Var) else -1 for i in x.indices]
        if -1 in at or at != sorted(set(at)):
            return False
        if not all(prove_equal(d, t.shape[n]) for n, d in zip(at, x.buffer.shape, strict=True)):
            return False
    return True
