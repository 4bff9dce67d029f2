"""Decision trees: each row of a matrix goes down every tree, and what the leaves say of each target is put together.

A node that asks compares one feature of the row with its threshold, and has two nodes where the row may go on. A leaf
goes on at itself, so that walks of different lengths can be taken side by side, as many steps as the longest: a step
waits for memory three times, but not for another walk. Which way a row goes is an address, not a branch: nobody could
predict it. Vectors of gathered elements took 1.5 to 2 times as long on an AMD EPYC with AVX-512.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from legato.arith.expr import (
    Expr,
    Var,
    cdiv,
    const,
    eq,
    floordiv,
    floormod,
    ge,
    gt,
    land,
    le,
    lor,
    lt,
    max_,
    min_,
    select,
)
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.op import Cost, Op, Relation, Sample
from legato.ir.types import TensorType, Type
from legato.ops._indexing import place
from legato.ops._rules import WIDE, at_least, require_dtype, require_rank, same_dtype, tensor
from legato.ops._tensors import Array, known_int, product, require_choice, tensor_bytes
from legato.te.tensor import Tensor, compute, loops
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, call, cast
from legato.tir.stmt import Alloc, For, If, Let, LoopKind, Stmt, Store, block

__all__ = ["AGGREGATES", "EACH", "EQUAL", "LANES", "LESS", "LESS_OR_EQUAL", "MISSING", "RULES",
           "TreeEnsembleAttrs", "tree_ensemble"]  # fmt: skip

AGGREGATES = ("SUM", "AVERAGE", "MIN", "MAX")
LESS_OR_EQUAL, LESS, EQUAL = range(3)  # how a node compares the feature with its threshold
MISSING = 4  # added to these: they hold of NaN
RULES = 8
EACH = -1  # the nodes do not all have one rule
LANES = 8  # walks side by side, and rows that go down the same trees while these are in the cache


@dataclass(frozen=True, slots=True)
class TreeEnsembleAttrs(Attrs):
    """`n_targets`: columns of the result; `aggregate`: SUM, AVERAGE (the sum divided by the number of trees), MIN, MAX;
    `rule`: that of all nodes, NaN apart; `missing`: 1 or 0: it holds of NaN, or not; -1: each node has its own."""

    n_targets: int = 1
    aggregate: str = "SUM"
    rule: int = EACH
    missing: int = EACH


def _relation(
    rel: Relation, data: Type, nodes: Type, thresholds: Type, roots: Type, depths: Type, begins: Type, targets: Type,
    weights: Type, a: TreeEnsembleAttrs,
) -> Type:  # fmt: skip
    require_choice(rel, "aggregate", a.aggregate, AGGREGATES)
    if a.n_targets < 1:
        raise rel.fail(f"n_targets is {a.n_targets}, wanted 1 or more")
    if not (EACH <= a.rule <= EQUAL and EACH <= a.missing <= 1):
        raise rel.fail(f"rule is {a.rule} and missing {a.missing}, wanted up to {EQUAL} and up to 1, or {EACH}")
    ty = tensor(rel, data, "data")
    require_rank(rel, ty, 2, what="data")
    node = tensor(rel, nodes, "nodes")
    require_rank(rel, node, 2, what="nodes")
    rel.same(node.shape[1], const(3), "columns of nodes")
    vectors = {"thresholds": thresholds, "roots": roots, "depths": depths, "begins": begins, "targets": targets,
               "weights": weights}  # fmt: skip
    found = {what: tensor(rel, v, what) for what, v in vectors.items()}
    for what, vector in found.items():
        require_rank(rel, vector, 1, what=what)
        is_number = what in ("thresholds", "weights")
        require_dtype(rel, vector, WIDE if is_number else _is_int32, what)
        at_least(rel, vector.shape[0], 2 if what == "begins" else 1, what)
    require_dtype(rel, node, _is_int32, "nodes")
    require_dtype(rel, ty, WIDE, "data")
    same_dtype(rel, ty, found["thresholds"])
    same_dtype(rel, ty, found["weights"])
    at_least(rel, ty.shape[1], 1, "features")
    rel.same(node.shape[0], found["thresholds"].shape[0], "number of nodes and of thresholds")
    rel.same(found["targets"].shape[0], found["weights"].shape[0], "number of targets and of weights")
    rel.same(cdiv(found["roots"].shape[0], LANES), found["depths"].shape[0], f"depths, one for {LANES} trees")
    return TensorType((ty.shape[0], const(a.n_targets)), ty.dtype)


def _is_int32(d: dt.DType) -> bool:
    return d == dt.int32


_is_int32.__name__ = "int32"


# ------------------------------------------------------------------------------- NumPy


def _next(x: Array, at: Array, nodes: Array, thresholds: Array, a: TreeEnsembleAttrs) -> Array:
    """Where each row of `x` goes on from the node that it is at."""
    code = nodes[at, 0]
    how = code % MISSING if a.rule == EACH else np.full_like(code, a.rule)
    absent = code % RULES >= MISSING if a.missing == EACH else np.full(code.shape, bool(a.missing))
    value = x[np.arange(len(x)), np.clip(code // RULES, 0, x.shape[1] - 1)]
    t = thresholds[at]
    holds = np.where(how == LESS, value < t, np.where(how == EQUAL, value == t, value <= t))
    holds |= absent & np.isnan(value)
    found: Array = nodes[at, 1 + holds]
    return np.clip(found, 0, len(nodes) - 1)


def _reference(
    x: Array, nodes: Array, thresholds: Array, roots: Array, depths: Array, begins: Array, targets: Array,
    weights: Array, a: TreeEnsembleAttrs,
) -> Array:  # fmt: skip
    out = np.zeros((len(x), a.n_targets), np.float64)
    seen = np.zeros(out.shape, bool)
    for t, root in enumerate(roots):
        at = np.full(len(x), np.clip(root, 0, len(nodes) - 1), np.int32)
        for _ in range(min(max(int(depths[t // LANES]), 0), len(nodes) - 1)):
            at = _next(x, at, nodes, thresholds, a)
        for row in np.flatnonzero(nodes[at, 0] < 0):
            leaf = np.clip(-1 - nodes[at[row], 0], 0, len(begins) - 2)
            first, end = (int(np.clip(begins[leaf + n], 0, len(weights))) for n in (0, 1))
            for k in range(first, end):
                target, w = int(np.clip(targets[k], 0, a.n_targets - 1)), float(weights[k])
                old = out[row, target]
                out[row, target] = _joined(old, w, bool(seen[row, target]), a.aggregate)
                seen[row, target] = True
    return (out / len(roots) if a.aggregate == "AVERAGE" else out).astype(x.dtype)


def _joined(old: float, w: float, seen: bool, how: str) -> float:
    if how in ("SUM", "AVERAGE"):
        return old + w
    return w if not seen or (w < old if how == "MIN" else w > old) else old


# ------------------------------------------------------------------------------- loops


class _Walk:
    """The loop program. The lanes are trees, or rows where there are few trees."""

    def __init__(self, inputs: tuple[Tensor, ...], a: TreeEnsembleAttrs) -> None:
        self.x, self.nodes, self.thresholds, self.roots, self.depths, self.begins, self.targets, self.weights = inputs
        self.a = a
        count = known_int(self.roots.shape[0])
        self.by_rows = count is not None and count < LANES
        self.at = Buffer("at", (const(LANES),), dt.int32, scope=Scope.LOCAL)

    def program(self, out: Tensor, seen: Tensor | None = None) -> Stmt:
        """Puts together in `out`, in float64, what the trees say; `seen` notes of which targets they said something."""
        b, r, t = (Var(name, dt.index, 0) for name in ("b", "r", "t"))
        n = self.x.shape[0]
        first, count = b * LANES, min_(const(LANES), n - b * LANES)
        clear = [Store(out, (first + r, t), const(0.0, dt.float64))]
        if seen is not None:
            clear.append(Store(seen, (first + r, t), const(False, dt.bool_)))
        cleared = For(r, count, For(t, const(self.a.n_targets), block(*clear)))
        walk = self._rows(first, count, out, seen) if self.by_rows else self._trees(first, count, out, seen)
        return For(b, cdiv(n, LANES), block(cleared, Alloc(self.at, walk)))

    def _rows(self, first: Expr, count: Expr, out: Tensor, seen: Tensor | None) -> Stmt:
        """Each tree for some rows, side by side."""
        tree, lane = Var("tree", dt.index, 0), Var("lane", dt.index, 0)
        down = self._down(lambda q: min_(first + q, self.x.shape[0] - 1), lambda q: tree, const(0))
        up = For(lane, count, self._up(lane, first + lane, out, seen))
        return For(tree, self.roots.shape[0], block(down, up))

    def _trees(self, first: Expr, count: Expr, out: Tensor, seen: Tensor | None) -> Stmt:
        """Some trees, side by side, for each of some rows, while these trees are in the cache."""
        g, q, lane = Var("g", dt.index, 0), Var("q", dt.index, 0), Var("lane", dt.index, 0)
        trees = self.roots.shape[0]
        down = self._down(lambda _: first + q, lambda t: min_(g * LANES + t, trees - 1), g)
        up = For(lane, min_(const(LANES), trees - g * LANES), self._up(lane, first + q, out, seen))
        return For(g, cdiv(trees, LANES), For(q, count, block(down, up)))

    def _down(self, row: Callable[[Expr], Expr], tree: Callable[[Expr], Expr], group: Expr) -> Stmt:
        """The nodes where the walks of all lanes end."""
        d, depth = Var("d", dt.index, 0), Var("depth", dt.index, 0)
        start = self._lanes(lambda lane: self._node(self.roots[tree(lane)]))
        step = self._lanes(lambda lane: self._next(row(lane), Load(self.at, (lane,))))
        most = place(self.depths[group], self.nodes.shape[0], "clip")
        return block(start, Let(depth, most, For(d, depth, step)))

    def _lanes(self, node: Callable[[Expr], Expr]) -> Stmt:
        lane = Var("lane", dt.index, 0, LANES - 1)
        return For(lane, const(LANES), Store(self.at, (lane,), node(lane)), LoopKind.UNROLL)

    def _node(self, node: Expr) -> Expr:
        """A number of a node as one that there is."""
        last = known_int(self.nodes.shape[0])
        if last is None:
            return cast(place(node, self.nodes.shape[0], "clip"), dt.int32)
        return max_(min_(node, const(last - 1, dt.int32)), const(0, dt.int32))

    def _next(self, row: Expr, at: Expr) -> Expr:
        """Where the walk goes on from node `at`."""
        here = cast(self._node(at), dt.index)
        code = self.nodes[here, 0]
        feature = place(floordiv(code, const(RULES, dt.int32)), self.x.shape[1], "clip")
        holds = self._holds(self.x[row, feature], self.thresholds[here], code)
        return self.nodes[here, cast(holds, dt.index) + 1]

    def _holds(self, value: Expr, threshold: Expr, code: Expr) -> Expr:
        test = self._test(value, threshold, code)
        if not self.a.missing:
            return test
        absent = call("isnan", value)
        if self.a.missing == EACH:
            rule = floormod(code, const(RULES, dt.int32))
            absent = land(absent, ge(rule, const(MISSING, dt.int32)))
        return lor(test, absent)

    def _test(self, value: Expr, threshold: Expr, code: Expr) -> Expr:
        tests = {LESS_OR_EQUAL: le(value, threshold), LESS: lt(value, threshold), EQUAL: eq(value, threshold)}
        if self.a.rule != EACH:
            return tests[self.a.rule]
        how, test = floormod(code, const(MISSING, dt.int32)), tests[LESS_OR_EQUAL]
        for which in (LESS, EQUAL):
            test = select(eq(how, const(which, dt.int32)), tests[which], test)
        return test

    def _up(self, lane: Expr, row: Expr, out: Tensor, seen: Tensor | None) -> Stmt:
        """Adds what the leaf says where the walk of a lane ended."""
        k, here, code = Var("k", dt.index, 0), Var("here", dt.index, 0), Var("code", dt.int32, None)
        leaf, begin, end = (Var(name, dt.index, 0) for name in ("leaf", "begin", "end"))
        target, w = Var("target", dt.index, 0), Var("w", dt.float64, None)
        limit = self.weights.shape[0]
        put = self._joined(out, seen, (row, target), w)
        put = Let(w, cast(self.weights[begin + k], dt.float64), put)
        put = Let(target, place(self.targets[begin + k], const(self.a.n_targets), "clip"), put)
        every: Stmt = For(k, max_(end - begin, const(0)), put)
        every = Let(end, max_(min_(cast(self.begins[leaf + 1], dt.index), limit), const(0)), every)
        every = Let(begin, max_(min_(cast(self.begins[leaf], dt.index), limit), const(0)), every)
        every = Let(leaf, place(const(-1, dt.int32) - code, self.begins.shape[0] - 1, "clip"), every)
        every = Let(code, self.nodes[here, 0], If(lt(code, const(0, dt.int32)), every))
        return Let(here, cast(self._node(Load(self.at, (lane,))), dt.index), every)

    def _joined(self, out: Tensor, seen: Tensor | None, where: tuple[Expr, ...], w: Expr) -> Stmt:
        old = out[where]
        if seen is None:
            return Store(out, where, old + w)
        better = lt(w, old) if self.a.aggregate == "MIN" else gt(w, old)
        new = select(seen[where], select(better, w, old), w)
        return block(Store(out, where, new), Store(seen, where, const(True, dt.bool_)))


def _compute(*args: object) -> Tensor:
    *inputs, a, out = args
    assert isinstance(a, TreeEnsembleAttrs)
    assert isinstance(out, TensorType)
    tensors = tuple(t for t in inputs if isinstance(t, Tensor))
    walk = _Walk(tensors, a)
    shapes = [(out.shape, dt.float64)]
    if a.aggregate in ("MIN", "MAX"):
        shapes.append((out.shape, dt.bool_))
    total, *_ = loops(shapes, tensors, walk.program, "said")
    count = cast(tensors[3].shape[0], dt.float64)

    def element(*i: Expr) -> Expr:
        found = total[i]
        return cast(found / count if a.aggregate == "AVERAGE" else found, out.dtype)

    return compute(out.shape, element, "scores")


def _cost(args: Sequence[TensorType], out: Type, a: TreeEnsembleAttrs) -> Cost:
    """About ten steps of some operations in each tree."""
    rows, trees = args[0].shape[0], args[3].shape[0]
    assert isinstance(out, TensorType)
    return Cost(product((rows, trees, const(80))), tensor_bytes((*args, out)))


def _code(feature: int, rule: int = 0) -> int:
    return feature * RULES + rule


_NODES = np.array(
    [[_code(0), 1, 2], [-1, 1, 1], [_code(1, LESS + MISSING), 3, 4], [-2, 3, 3], [-3, 4, 4], [_code(2, EQUAL), 6, 7],
     [-4, 6, 6], [-5, 7, 7]], np.int32,
)  # fmt: skip
_THRESHOLDS = np.array([0.5, 0, -1.0, 0, 0, 2.0, 0, 0], np.float32)
_LEAVES = (np.array([0, 1, 3, 4, 5, 6], np.int32), np.array([0, 1, 0, 2, 1, 2], np.int32))
_WEIGHTS = np.array([1.5, -2.0, 0.25, 4.0, -1.0, 0.5], np.float32)
_ROWS = np.array([[0, 0, 2], [1, np.nan, 2], [0.5, np.nan, 1], [np.nan, -2, 2], [-1, -1, np.nan]], np.float32)


def _sample(roots: int, dtype: str = "float32", **attrs: object) -> Sample:
    trees = np.resize(np.array([0, 5], np.int32), roots)
    x, thresholds, weights = (v.astype(dtype) for v in (_ROWS, _THRESHOLDS, _WEIGHTS))
    depths = np.full(-(-roots // LANES), 2, np.int32)
    return Sample((x, _NODES, thresholds, trees, depths, *_LEAVES, weights), {"n_targets": 3, **attrs}, exact=True)


_WILD = np.array(
    [[_code(9), 1, 99], [_code(-2, 7), 0, -5], [-77, 1, 9], [_code(0), -4, 1]], np.int32
)  # of a stranger's file

tree_ensemble = Op(
    name="ml.tree_ensemble",
    args=("data", "nodes", "thresholds", "roots", "depths", "begins", "targets", "weights"),
    attrs=TreeEnsembleAttrs,
    type_rel=_relation,
    reference=_reference,
    compute=_compute,
    cost=_cost,
    samples=(
        *(_sample(2, aggregate=how) for how in AGGREGATES),
        _sample(1),
        _sample(2, rule=LESS_OR_EQUAL),
        _sample(2, rule=LESS, missing=1),
        _sample(2, missing=0),
        _sample(2 * LANES + 1, "float64"),
        Sample(
            (_ROWS, _WILD, _THRESHOLDS[:4], np.array([0, 1, -3, 9], np.int32), np.array([7], np.int32),
             np.array([-4, 9, 2], np.int32), np.array([5, -1], np.int32), _WEIGHTS[:2]),
            {"n_targets": 2}, exact=True,
        ),
    ),
    doc="""(rows, n_targets): what the leaves that the rows of data come to in each tree say of each target.

Node i is row i of `nodes`, and thresholds[i]. One that asks has 8 · feature + rule, the node where a row goes on for
which the rule does not hold, and that for others. Rules: 0: feature <= threshold, 1: feature < threshold, 2: they are
equal; + 4: it holds of NaN, too. Leaf l has −1 − l, and itself twice: it says weights[k] of targets[k] for each k from
begins[l] to begins[l + 1]. The trees begin at the nodes `roots`; of each 8 of them, depths has the most steps from
there to a leaf. Sums are formed in float64, tree by tree. A target of which no leaf says anything is 0. What does not
lie inside an operand is clamped.""",
)  # fmt: skip
