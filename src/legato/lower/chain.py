"""Two contractions with reductions along rows between them, recognised from the structure of stages.

    scores[…, q, k]  = f(Σ_c query[…, q, c] · keys[…, k, c])
    rows[…, q]       = max, sum… over k of what scores and earlier rows give            (softmax: maximum, sum)
    total[…, q, d]   = Σ_k weight(scores[…, q, k], rows[…, q]) · values[…, k, d]
    out              = g(total), its elements rearranged

All of it is written over the axes of `total` and the axis k. A block of rows q needs no scores but its own.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from legato.arith.expr import Binary, Const, Expr, Op, Var, const
from legato.arith.interval import Interval
from legato.arith.prove import prove_equal
from legato.arith.simplify import simplify
from legato.arith.substitute import rewrite, substitute, variables
from legato.base.dataclass import dataclass
from legato.lower.access import depends, extent_of
from legato.lower.group import stages
from legato.lower.traits import is_reduction, tensors_read
from legato.te.inline import inline, loads
from legato.te.tensor import Axis, Stage, Tensor
from legato.tir.expr import Load

__all__ = ["Chain", "RowStep", "find_chain", "is_product"]


@dataclass(frozen=True, slots=True)
class RowStep:
    """A reduction along rows: `load`, as later ones read it, is `body` over k combined, and with `init` if that is
    given."""

    load: Load
    combiner: str
    body: Expr
    init: Expr | None


@dataclass(frozen=True, slots=True)
class Chain:
    """The parts; see the module. `product` and `score` are the Loads that stand for the first contraction and for what
    `scores` makes of it, `total` is the one that `result` reads; `index` says where in the output that lies."""

    outer: tuple[Axis, ...]
    row: Axis
    channel: Axis
    key: Axis
    reduced: Axis
    query: Expr
    keys: Expr
    product: Load
    scores: Expr
    score: Load
    steps: tuple[RowStep, ...]
    weight: Expr
    values: Expr
    total: Load
    result: Expr
    index: tuple[Expr, ...]

    def operands(self) -> list[Tensor]:
        """What is read from memory."""
        own = {self.product.buffer, self.score.buffer, self.total.buffer, *(s.load.buffer for s in self.steps)}
        bodies = (self.query, self.keys, self.scores, self.weight, self.values, self.result)
        return [t for e in (*bodies, *(s.body for s in self.steps)) for t in tensors_read(e) if t not in own]


def find_chain(tensor: Tensor, body: Expr, stored: Container[Tensor]) -> Chain | None:
    """How `tensor` = `body` (its stage inlined, or a Load of it if it is itself a reduction) is such a chain."""
    assert isinstance(tensor.stage, Stage)
    totals = [x for x in loads(body) if is_reduction(x.buffer) and (x.buffer is tensor or x.buffer not in stored)]
    if len(totals) != 1 or not isinstance(totals[0].buffer, Tensor):
        return None
    second = _product(totals[0].buffer)
    if second is None:
        return None
    inverse = _inverse(totals[0].indices, second.axes, tensor.stage.axes)
    return None if inverse is None else _Finder(totals[0], second, stored).chain(body, tensor.stage.axes, inverse)


def is_product(t: Tensor) -> bool:
    """True for a plain sum of products of floats along one axis."""
    return _product(t) is not None


@dataclass(frozen=True, slots=True)
class _Product:
    """tensor[axes] = Σ_reduced a · b."""

    tensor: Tensor
    axes: tuple[Axis, ...]
    reduced: Axis
    a: Expr
    b: Expr


def _product(t: Tensor) -> _Product | None:
    """`t` as a plain sum of products along one axis."""
    stage = t.stage
    if not isinstance(stage, Stage) or stage.reduction is None or not t.dtype.is_float:
        return None
    red, body = stage.reduction, stage.body
    if red.combiner != "sum" or red.init is not None or len(red.axes) != 1:
        return None
    if not isinstance(body, Binary) or body.op is not Op.MUL:
        return None
    return _Product(t, stage.axes, red.axes[0], body.a, body.b)


@dataclass(frozen=True, slots=True)
class _With:
    """What is read, not inlined: what is stored, and the scores."""

    stored: Container[Tensor]
    scores: Tensor

    def __contains__(self, t: object) -> bool:
        return t is self.scores or t in self.stored


class _Finder:
    def __init__(self, total: Load, second: _Product, stored: Container[Tensor]) -> None:
        self.total, self.second, self.stored = total, second, stored
        self.key = second.reduced
        axes = (*second.axes, self.key)
        known = {a.var: extent_of(a.extent) for a in axes}
        self.units: dict[Var, Expr] = {v: const(0) for v, n in known.items() if n == 1}
        self.ranges = {v: Interval(0, None if n is None else n - 1) for v, n in known.items()}

    def chain(self, body: Expr, axes: Sequence[Axis], inverse: dict[Var, Expr]) -> Chain | None:
        """The chain that ends with `body` over `axes`, each of which is `inverse` over the axes of the total."""
        sides = [(self.second.a, self.second.b), (self.second.b, self.second.a)]
        weighted = [(w, v) for w, v in sides if self._reductions(w) and not self._reductions(v)]
        if len(weighted) != 1:
            return None
        weight, other = weighted[0]
        product, *along = self._reductions(weight)
        first = _product(product)
        if first is None:
            return None
        rows = next((r for t in _score_tensors(product, along) if (r := self._rows(weight, product, along, t))), None)
        if rows is None:
            return None
        weight, steps, score, scores = rows
        values = self._plain(inline(other, self.stored))
        roles, made = self._roles(weight, values), self._made(score, scores, product)
        if roles is None or made is None:
            return None
        row, channel = roles
        element, at = made
        factors = self._factors(first, at, row)
        if factors is None:
            return None
        query, keys, reduced = factors
        values_of = (score, weight, values, query, keys, at, self.total, *(s.load for s in steps))
        if any(e.dtype is not at.dtype for e in values_of):
            return None
        return Chain(
            outer=tuple(a for a in self.second.axes if a not in (row, channel)),
            row=row,
            channel=channel,
            key=self.key,
            reduced=reduced,
            query=query,
            keys=keys,
            product=at,
            scores=element,
            score=score,
            steps=steps,
            weight=weight,
            values=values,
            total=self.total,
            result=self._result(body, inverse),
            index=tuple(self._plain(inverse[a.var]) for a in axes),
        )

    def _factors(self, first: _Product, at: Load, row: Axis) -> tuple[Expr, Expr, Axis] | None:
        """What rows and keys bring to the elements of `first` that are read by `at`, and the axis summed over."""
        env: dict[Var, Expr] = {a.var: i for a, i in zip(first.axes, at.indices, strict=True)}
        query, keys = (self._plain(substitute(inline(e, self.stored), env)) for e in (first.a, first.b))
        if not depends(query, row.var):
            query, keys = keys, query
        if not depends(query, row.var) or depends(query, self.key.var):
            return None
        if not depends(keys, self.key.var) or depends(keys, row.var) or self._reductions(query * keys):
            return None
        return query, keys, Axis(first.reduced.var, substitute(first.reduced.extent, env))

    def _plain(self, e: Expr) -> Expr:
        """`e` with axes of extent 1 at 0 and subscripts simplified, so that equal ones are the same."""
        e = substitute(e, self.units)

        def simpler(node: Expr) -> Expr | None:
            if not isinstance(node, Load):
                return None
            return Load(node.buffer, tuple(simplify(i, self.ranges) for i in node.indices))

        return rewrite(e, simpler)

    def _reductions(self, e: Expr) -> list[Tensor]:
        """The reductions, producers first, that `e` needs and that are not stored."""
        order = stages(tensors_read(e))
        return [t for t in order if is_reduction(t) and t not in self.stored]

    def _rows(
        self, weight: Expr, product: Tensor, along: Sequence[Tensor], scores: Tensor
    ) -> tuple[Expr, tuple[RowStep, ...], Load, Tensor] | None:
        """The weights and the reductions along rows in terms of `scores`, how these are read, and they themselves; None
        where the product is read beside them."""
        keep = _With(self.stored, scores)
        weight = self._plain(inline(weight, keep))
        steps = self._steps(weight, along, keep)
        if steps is None:
            return None
        read = {x for e in (weight, *(s.body for s in steps)) for x in loads(e) if x.buffer in (scores, product)}
        return (weight, steps, read.pop(), scores) if {x.buffer for x in read} == {scores} and len(read) == 1 else None

    def _steps(self, weight: Expr, along: Sequence[Tensor], keep: Container[Tensor]) -> tuple[RowStep, ...] | None:
        """The reductions along rows, in order, over the axes of the total."""
        found: dict[Tensor, RowStep] = {}
        bodies = [weight]
        for t in reversed(along):
            stage = t.stage
            assert isinstance(stage, Stage)
            assert stage.reduction is not None
            red = stage.reduction
            reads = {x for e in bodies for x in loads(e) if x.buffer is t}
            if len(reads) != 1 or len(red.axes) != 1 or not prove_equal(red.axes[0].extent, self.key.extent):
                return None
            (load,) = reads
            env: dict[Var, Expr] = {a.var: i for a, i in zip(stage.axes, load.indices, strict=True)}
            env[red.axes[0].var] = self.units.get(self.key.var, self.key.var)
            if any(depends(i, self.key.var) for i in load.indices):
                return None
            body = self._plain(substitute(inline(stage.body, keep), env))
            init = None if red.init is None else self._plain(substitute(inline(red.init, keep), env))
            if init is not None and loads(init):
                return None
            found[t] = RowStep(load, red.combiner, body, init)
            bodies.append(body)
        return tuple(found[t] for t in along)

    def _roles(self, weight: Expr, values: Expr) -> tuple[Axis, Axis] | None:
        """The axis of rows and that of channels: the last that only the weights follow, and only the values."""
        rows = [a for a in self.second.axes if depends(weight, a.var) and not depends(values, a.var)]
        channels = [a for a in self.second.axes if depends(values, a.var) and not depends(weight, a.var)]
        return (rows[-1], channels[-1]) if rows and channels and depends(values, self.key.var) else None

    def _made(self, score: Load, scores: Tensor, product: Tensor) -> tuple[Expr, Load] | None:
        """What the scores are at `score`, and the Load of the product in it."""
        if scores is product:
            return score, score
        assert isinstance(scores.stage, Stage)
        if scores.stage.reduction is not None:
            return None
        env: dict[Var, Expr] = {a.var: i for a, i in zip(scores.stage.axes, score.indices, strict=True)}
        element = self._plain(substitute(inline(scores.stage.body, self.stored), env))
        reads = [x for x in loads(element) if is_reduction(x.buffer) and x.buffer not in self.stored]
        return (element, reads[0]) if len(reads) == 1 and reads[0].buffer is product else None

    def _result(self, body: Expr, inverse: Mapping[Var, Expr]) -> Expr:
        """`body` over the axes of the total, which it reads by a Load that stays as it is."""
        hole = Var("total", self.total.dtype)
        body = rewrite(body, lambda e: hole if e is self.total else None)
        return substitute(self._plain(substitute(body, inverse)), {hole: self.total})


def _score_tensors(product: Tensor, along: Sequence[Tensor]) -> list[Tensor]:
    """What may be the scores: what the first reduction along rows reads, or else the product."""
    if not along or not isinstance(along[0].stage, Stage):
        return []
    body = along[0].stage.body
    if isinstance(body, Load) and isinstance(body.buffer, Tensor) and body.buffer.stage is not None:
        return [body.buffer, product]
    return [product]


def _inverse(index: Sequence[Expr], inner: Sequence[Axis], outer: Sequence[Axis]) -> dict[Var, Expr] | None:
    """`outer` axes as functions of `inner` ones, where `index` says what the inner ones are over the outer ones.

    Each inner axis must be an outer one, or a digit of one: (axis // step) % extent, with the steps of a row-major
    order. None where that is not so, or not one to one.
    """
    by_axis: dict[Var, list[tuple[Expr, Axis]]] = {a.var: [] for a in outer}
    for e, axis in zip(index, inner, strict=True):
        used = variables(e)
        if not used and extent_of(axis.extent) == 1:
            continue
        if len(used) != 1 or used[0] not in by_axis:
            return None
        by_axis[used[0]].append((e, axis))
    found: dict[Var, Expr] = {}
    for axis in outer:
        digits = _digits(axis, by_axis[axis.var])
        if digits is None:
            return None
        found[axis.var] = digits
    return found


def _digits(axis: Axis, parts: Iterable[tuple[Expr, Axis]]) -> Expr | None:
    """The value of `axis` that is put together from `parts` of it."""
    steps = sorted(((_step(e, axis.var), part) for e, part in parts), key=lambda x: (x[0] or 0, extent_of(x[1].extent)))
    value: Expr = const(0)
    size: Expr = const(1)
    for step, part in steps:
        if not isinstance(size, Const) or step != size.value:
            return None
        value = value + part.var * size
        size = simplify(size * part.extent)
    return value if prove_equal(size, axis.extent) else None


def _step(e: Expr, var: Var) -> int | None:
    """n, for var // n or (var // n) % m; 1 for var or var % m."""
    if isinstance(e, Binary) and e.op is Op.FLOORMOD and isinstance(e.b, Const):
        e = e.a
    if e is var:
        return 1
    if isinstance(e, Binary) and e.op is Op.FLOORDIV and e.a is var and isinstance(e.b, Const):
        return int(e.b.value)
    return None
