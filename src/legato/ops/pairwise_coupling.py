"""Probabilities of classes from those of pairs of classes, as support vector machines have them.

The method is the second of Wu, Lin and Weng (2004), with the steps and the end of libsvm: from 1 / classes, coordinates
are improved in turn until all are near enough to the solution, for at most 100 rounds. Another end would give other
probabilities: they differ from the solution by up to 0.005 / classes.
"""

from __future__ import annotations

import numpy as np

from legato.arith.expr import Expr, Var, const, eq, lt, max_, select
from legato.base import dtype as dt
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._rules import FLOAT, at_least, require_dtype, require_rank, tensor
from legato.ops._tensors import Array
from legato.te.tensor import Tensor, compute, loops, reduce
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, call, cast
from legato.tir.stmt import Alloc, For, If, Let, Stmt, Store, block

__all__ = ["pairwise_coupling"]

_ROUNDS = 100
_NEAR = 0.005  # divided by the number of classes


def _relation(rel: Relation, pairs: Type) -> Type:
    ty = tensor(rel, pairs, "pairs")
    require_rank(rel, ty, 3, what="pairs")
    require_dtype(rel, ty, FLOAT, "pairs")
    rel.same(ty.shape[1], ty.shape[2], "numbers of classes")
    at_least(rel, ty.shape[1], 2, "classes")
    return TensorType(ty.shape[:2], ty.dtype)


def _coupled(r: Array) -> Array:
    """The probabilities of the classes of one row."""
    count = len(r)
    others = np.where(np.eye(count, dtype=bool), 0, r)
    q = np.diag((others**2).sum(axis=0)) - others * others.T
    p = np.full(count, 1 / count)
    for _ in range(_ROUNDS):
        qp = q @ p
        total = p @ qp
        if np.max(np.abs(qp - total)) < _NEAR / count:
            break
        for i in range(count):
            step = (total - qp[i]) / q[i, i]
            p[i] += step
            total = (total + step * (step * q[i, i] + 2 * qp[i])) / (1 + step) / (1 + step)
            qp = (qp + step * q[i]) / (1 + step)
            p /= 1 + step
    return p


def _reference(pairs: Array) -> Array:
    wide = pairs.astype(np.float64)
    with np.errstate(all="ignore"):
        return np.array([_coupled(r) for r in wide]).reshape(pairs.shape[:2]).astype(pairs.dtype)


class _Rounds:
    """The loop program for the rows of `q`."""

    def __init__(self, q: Tensor) -> None:
        self.q, self.count = q, q.shape[1]
        self.total = Buffer("total", (const(2),), dt.float64, scope=Scope.LOCAL)  # pᵀQp, and the largest difference
        self.more = Buffer("more", (const(1),), dt.bool_, scope=Scope.LOCAL)

    def program(self, p: Tensor, qp: Tensor) -> Stmt:
        n, i, t = (Var(name, dt.index, 0) for name in ("n", "i", "t"))
        zero = (const(0),)
        one = const(1.0, dt.float64)
        start = For(i, self.count, Store(p, (n, i), one / cast(self.count, dt.float64)))
        near = const(_NEAR, dt.float64) / cast(self.count, dt.float64)
        is_near = lt(Load(self.total, (const(1),)), near)
        end = If(is_near, Store(self.more, zero, const(False, dt.bool_)), self._step(n, p, qp))
        each = For(t, const(_ROUNDS), If(Load(self.more, zero), block(self._products(n, p, qp), end)))
        row = block(start, Store(self.more, zero, const(True, dt.bool_)), each)
        return For(n, self.q.shape[0], Alloc(self.total, Alloc(self.more, row)))

    def _products(self, n: Var, p: Tensor, qp: Tensor) -> Stmt:
        """Qp, pᵀQp, and how far the former is from being the latter everywhere."""
        i, j, k = (Var(name, dt.index, 0) for name in ("i", "j", "k"))
        nothing = const(0.0, dt.float64)
        total, far = Load(self.total, (const(0),)), Load(self.total, (const(1),))
        sums = For(j, self.count, Store(qp, (n, i), qp[n, i] + self.q[n, i, j] * p[n, j]))
        added = Store(self.total, (const(0),), total + p[n, i] * qp[n, i])
        first = For(i, self.count, block(Store(qp, (n, i), nothing), sums, added))
        apart = call("abs", qp[n, k] - total)
        last = For(k, self.count, Store(self.total, (const(1),), max_(far, apart)))
        clear = [Store(self.total, (const(m),), nothing) for m in (0, 1)]
        return block(*clear, first, last)

    def _step(self, n: Var, p: Tensor, qp: Tensor) -> Stmt:
        """Improves each coordinate in turn."""
        i, j, step = Var("i", dt.index, 0), Var("j", dt.index, 0), Var("step", dt.float64, None)
        zero, grown = (const(0),), const(1.0, dt.float64) + step
        total, own = Load(self.total, zero), self.q[n, i, i]
        better = (total + step * (step * own + qp[n, i] + qp[n, i])) / grown / grown
        scale = block(Store(qp, (n, j), (qp[n, j] + step * self.q[n, i, j]) / grown), Store(p, (n, j), p[n, j] / grown))
        body = block(Store(p, (n, i), p[n, i] + step), Store(self.total, zero, better), For(j, self.count, scale))
        return For(i, self.count, Let(step, (total - qp[n, i]) / own, body))


def _compute(pairs: Tensor, out: TensorType) -> Tensor:
    rows, count, _ = pairs.shape
    r = compute(pairs.shape, lambda n, i, j: cast(pairs[n, i, j], dt.float64), "wide")

    def square(n: Expr, i: Expr, k: Expr) -> Expr:
        return select(eq(i, k), const(0.0, dt.float64), r[n, k, i] * r[n, k, i])

    own = reduce("sum", (rows, count), (count,), square, "own")
    q = compute(pairs.shape, lambda n, i, j: select(eq(i, j), own[n, i], -(r[n, j, i] * r[n, i, j])), "q")
    shape = ((rows, count), dt.float64)
    p, _ = loops([shape, shape], (q,), _Rounds(q).program, "p")
    return compute(out.shape, lambda *i: cast(p[i], out.dtype), "probabilities")


def _pairs(count: int, rows: int, dtype: str = "float32") -> Array:
    """Probabilities of pairs that go together to 1."""
    r = np.random.default_rng(count).uniform(0.05, 0.95, (rows, count, count))
    upper = np.triu(r, 1)
    return (upper + np.tril(1 - upper.transpose(0, 2, 1), -1)).astype(dtype)


pairwise_coupling = Op(
    name="ml.pairwise_coupling",
    args=("pairs",),
    type_rel=_relation,
    reference=_reference,
    compute=_compute,
    samples=(
        Sample((_pairs(2, 3),)),
        Sample((_pairs(3, 5),)),
        Sample((_pairs(7, 4, "float64"),)),
        Sample((_pairs(4, 0),)),
        Sample((_pairs(3, 2, "float16"),), rtol=2e-3),
    ),
    doc="""(rows, classes): probabilities of classes from those of pairs, (rows, classes, classes).

pairs[n, i, j] is the probability that row n is of class i where it is known to be of class i or j. The result is near
to the solution that libsvm has, by the same steps (Wu, Lin, Weng 2004): up to 100 rounds, in float64.""",
)
