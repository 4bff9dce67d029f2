"""Greedy non-maximum suppression: of boxes that overlap much, the one with the highest score is kept."""

from __future__ import annotations

import numpy as np

from legato.arith.expr import Expr, Var, const, gt, land, lt, max_, min_
from legato.base import dtype as dt
from legato.base.dataclass import dataclass
from legato.ir.attr_record import Attrs
from legato.ir.op import Op, Relation, Sample
from legato.ir.types import TensorType, TupleType, Type
from legato.ops._families import quiet
from legato.ops._indexing import place
from legato.ops._overlap import share, share_array
from legato.ops._rules import INT, WIDE, require_dtype, require_rank, same_dtype, tensor
from legato.ops._tensors import Array, require_choice
from legato.ops.sort import sorted_subscripts
from legato.te.tensor import Tensor, loops
from legato.tir.buffer import Buffer, Scope
from legato.tir.expr import Load, cast
from legato.tir.stmt import Alloc, For, If, Let, Stmt, Store, block

__all__ = ["AllClassNMSAttrs", "all_class_non_max_suppression"]


@dataclass(frozen=True, slots=True)
class AllClassNMSAttrs(Attrs):
    """`output_format`: onnx, the only one."""

    output_format: str = "onnx"


def _relation(
    rel: Relation, boxes: Type, scores: Type, most: Type, overlap: Type, least: Type, a: AllClassNMSAttrs
) -> Type:
    require_choice(rel, "output_format", a.output_format, ("onnx",))
    box, score = tensor(rel, boxes, "boxes"), tensor(rel, scores, "scores")
    for ty, what in ((box, "boxes"), (score, "scores")):
        require_rank(rel, ty, 3, what=what)
        require_dtype(rel, ty, WIDE, what)
    rel.same(box.shape[2], const(4), "numbers of a box")
    rel.same(box.shape[0], score.shape[0], "batch of boxes and scores")
    rel.same(box.shape[1], score.shape[2], "number of boxes and of scores")
    limits = {"max_output_boxes_per_class": most, "iou_threshold": overlap, "score_threshold": least}
    for what, limit in limits.items():
        found = tensor(rel, limit, what)
        require_rank(rel, found, 0, what=what)
        require_dtype(rel, found, INT if limit is most else WIDE, what)
        if limit is not most:
            same_dtype(rel, box, found)
    same_dtype(rel, box, score)
    batch, classes, count = score.shape
    rows = TensorType((batch * classes * count, const(3)), dt.int64)
    return TupleType((rows, TensorType((const(1),), dt.int64)))


# ------------------------------------------------------------------------------- NumPy


def _reference(
    boxes: Array, scores: Array, most: Array, overlap: Array, least: Array, a: AllClassNMSAttrs
) -> tuple[Array, Array]:
    rows: list[tuple[int, int, int]] = []
    for b, c in np.ndindex(scores.shape[:2]):
        kept: list[int] = []
        row = scores[b, c]
        for i in (len(row) - 1 - np.argsort(row[::-1], kind="stable")[::-1]).tolist():
            if not row[i] > least or len(kept) >= most:
                continue
            if not any(share_array(boxes[b, i], boxes[b, j]) > overlap for j in kept):
                kept.append(i)
        rows += [(b, c, i) for i in kept]
    out = np.zeros((scores.size, 3), np.int64)
    out[: len(rows)] = np.array(rows, np.int64).reshape(-1, 3)
    return out, np.array([len(rows)], np.int64)


# ------------------------------------------------------------------------------- loops


class _Suppression:
    """The loop program: `order` has the subscripts of each class's scores, the highest first, in plane 0."""

    def __init__(
        self, boxes: Tensor, scores: Tensor, most: Tensor, overlap: Tensor, least: Tensor, order: Tensor
    ) -> None:
        self.boxes, self.scores, self.order = boxes, scores, order
        self.most, self.overlap, self.least = most, overlap, least
        self.begin = Buffer("begin", (const(1),), dt.int64, scope=Scope.LOCAL)  # the first row of a class
        self.free = Buffer("free", (const(1),), dt.bool_, scope=Scope.LOCAL)  # whether a box overlaps none so far

    def program(self, rows: Tensor, count: Tensor) -> Stmt:
        b, c, i, k = (Var(name, dt.index, 0) for name in "bcik")
        zero = (const(0),)
        batch, classes, boxes = self.scores.shape
        each = Let(i, place(self.order[0, b, c, k], boxes, "clip"), self._box(rows, count, b, c, i))
        of_class = block(Store(self.begin, zero, count[zero]), For(k, boxes, each))
        body = Alloc(self.begin, Alloc(self.free, For(b, batch, For(c, classes, of_class))))
        r, d = Var("r", dt.index, 0), Var("d", dt.index, 0)
        cleared = For(r, rows.shape[0], For(d, rows.shape[1], Store(rows, (r, d), const(0, dt.int64))))
        return block(cleared, Store(count, zero, const(0, dt.int64)), body)

    def _box(self, rows: Tensor, count: Tensor, b: Var, c: Var, i: Var) -> Stmt:
        """Appends box `i` unless its score is too low, enough are kept, or it overlaps one that is."""
        n, begin, s, j = (Var(name, dt.index, 0) for name in ("n", "begin", "s", "j"))
        zero = (const(0),)
        last = max_(rows.shape[0] - 1, const(0))
        clash = If(self._overlaps(b, i, j), Store(self.free, zero, const(False, dt.bool_)))
        kept = place(rows[min_(begin + s, last), 2], self.boxes.shape[1], "clip")
        look = For(s, max_(n - begin, const(0)), Let(j, kept, clash))
        row = [Store(rows, (n, const(d)), cast(v, dt.int64)) for d, v in enumerate((b, c, i))]
        next_ = Store(count, zero, cast(n + 1, dt.int64))
        add = If(land(Load(self.free, zero), lt(n, rows.shape[0])), block(*row, next_))
        tried = block(Store(self.free, zero, const(True, dt.bool_)), look, add)
        is_room = lt(cast(n - begin, dt.int64), cast(self.most[()], dt.int64))
        wanted = land(gt(self.scores[b, c, i], self.least[()]), is_room)
        bound = Let(begin, cast(Load(self.begin, zero), dt.index), If(wanted, tried))
        return Let(n, cast(count[zero], dt.index), bound)

    def _overlaps(self, b: Expr, i: Expr, j: Expr) -> Expr:
        """Whether intersection over union of boxes `i` and `j` is above the threshold."""
        first, second = (lambda d, box=box: self.boxes[b, box, d] for box in (i, j))
        return gt(share(first, second), self.overlap[()])


def _compute(
    boxes: Tensor, scores: Tensor, most: Tensor, overlap: Tensor, least: Tensor, a: AllClassNMSAttrs, out: TupleType
) -> tuple[Tensor, ...]:
    order = sorted_subscripts(scores, 2, False)
    inputs = (boxes, scores, most, overlap, least, order)
    shapes = [(t.shape, t.dtype) for t in out.fields if isinstance(t, TensorType)]
    return loops(shapes, inputs, _Suppression(*inputs).program, "kept")


_BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [1, 11.1, 0, 10.1],
                    [0, 100, 1, 101]]], np.float32)  # fmt: skip
_SCORES = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.1, 0.1, 0.1, 0.1, 0.1]]], np.float32)


def _sample(most: int, overlap: float, least: float, dtype: str = "float32") -> Sample:
    floats = [np.asarray(v).astype(dtype) for v in (_BOXES, _SCORES, overlap, least)]
    return Sample((*floats[:2], np.array(most, np.int64), *floats[2:]), exact=True)


all_class_non_max_suppression = Op(
    name="vision.all_class_non_max_suppression",
    args=("boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold"),
    attrs=AllClassNMSAttrs,
    type_rel=_relation,
    reference=quiet(_reference),
    compute=_compute,
    samples=(
        _sample(3, 0.5, 0.0),
        _sample(2, 0.5, 0.4),
        _sample(0, 0.5, 0.0),
        _sample(100, 1.0, -1.0),
        _sample(3, 0.5, 0.0, "float64"),
    ),
    doc="""(rows, [n]): (batch, class, box) of the n boxes that are kept, class by class, the highest score first, then
rows of zeros.

Boxes (batch, number, 4) have two opposite corners, (y, x, y, x); scores are (batch, class, number). Of each class at
most `max_output_boxes_per_class` are kept, none whose score is not above `score_threshold`, and none whose intersection
over union with one of a higher score is above `iou_threshold`. Of equal scores the first counts as higher.""",
)
